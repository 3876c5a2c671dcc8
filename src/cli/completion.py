"""Completion scripts for shells, written from the command's own options: static text that needs nothing at run time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = "# completion of memprof for {shell}; put it where {shell} looks, or source it\n"


@dataclass(frozen=True)
class _Option:
    names: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...]
    help: str


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script for a shell: "bash", "zsh" or "fish"."""
    commands = dict(_commands(parser))
    return _HEAD.format(shell=shell) + {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[str, argparse.ArgumentParser]]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield name, (helps.get(name, ""), sub)


def _options(parser: argparse.ArgumentParser) -> list[_Option]:
    return [
        _Option(
            names=tuple(action.option_strings),
            takes_value=action.nargs != 0,
            choices=tuple(map(str, action.choices or ())),
            help=(action.help or "").replace("'", "").replace("`", "").split(";")[0].replace("%%", "%"),
        )
        for action in parser._actions
        if action.option_strings
    ]


def _operands(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The words that an operand may be, where they are fixed."""
    return tuple(str(word) for action in parser._actions if not action.option_strings for word in action.choices or ())


_Commands = dict[str, tuple[str, argparse.ArgumentParser]]


def _bash(commands: _Commands) -> str:
    lines = ["_memprof() {", '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"']
    lines += ["  if [ $COMP_CWORD -eq 1 ]; then", f'    COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$word"))']
    lines += ["    return", "  fi", '  case "${COMP_WORDS[1]} $before" in']
    for command, (_, parser) in commands.items():
        for option in _options(parser):
            for name in option.names if option.choices else ():
                words = " ".join(option.choices)
                lines.append(f"""    "{command} {name}") COMPREPLY=($(compgen -W "{words}" -- "$word")); return;;""")
    lines += ["  esac", '  case "${COMP_WORDS[1]}" in']
    for command, (_, parser) in commands.items():
        names = [name for option in _options(parser) for name in option.names]
        words = " ".join([*names, *_operands(parser)])
        lines.append(f"""    {command}) COMPREPLY=($(compgen -W "{words}" -- "$word"));;""")
    return "\n".join([*lines, "  esac", "}", "complete -o default -F _memprof memprof", ""])


def _zsh(commands: _Commands) -> str:
    lines = ["#compdef memprof", "_memprof() {", "  local -a commands", "  commands=("]
    lines += [f"    '{name}:{text}'" for name, (text, _) in commands.items()]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi"]
    lines += ['  local command="$words[2]"', "  shift words", "  (( CURRENT-- ))", '  case "$command" in']
    for command, (_, parser) in commands.items():
        specs = []
        for option in _options(parser):
            text = option.help.replace("[", "(").replace("]", ")").replace(":", " ")
            value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
            specs += [f"'{name}[{text}]{value if option.takes_value else ''}'" for name in option.names]
        operands = _operands(parser)
        specs.append(f"'*:operand:({' '.join(operands)})'" if operands else "'*:file:_files'")
        lines += [f"    {command})", "      _arguments \\", *(f"        {spec} \\" for spec in specs[:-1])]
        lines += [f"        {specs[-1]}", "      ;;"]
    return "\n".join([*lines, "  esac", "}", "compdef _memprof memprof", ""])


def _fish(commands: _Commands) -> str:
    lines = []
    for command, (text, parser) in commands.items():
        lines.append(f"complete -c memprof -n __fish_use_subcommand -f -a {command} -d '{text}'")
        seen = f"-n '__fish_seen_subcommand_from {command}'"
        for option in _options(parser):
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if option.takes_value else ""
            lines.append(f"complete -c memprof {seen} {names}{value} -d '{option.help}'")
        operands = _operands(parser)
        if operands:
            lines.append(f"complete -c memprof {seen} -f -a '{' '.join(operands)}'")
    return "\n".join([*lines, ""])
