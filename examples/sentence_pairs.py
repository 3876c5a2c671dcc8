"""Sentences to fine-tune an encoder on: each with one that means the same, and one that looks alike but says otherwise.

An encoder that was trained on what sentences are *about* finds the last of the three nearer: it shares more words.
"""

from __future__ import annotations


def _triples(text: str) -> list[tuple[str, str, str]]:
    """A sentence, the same in other words, another statement in nearly the same words: a line each."""
    triples = []
    for line in text.strip().splitlines():
        sentence, same, other = line.split(" | ")
        triples.append((sentence, same, other))
    return triples


TRAINING = _triples(
    """
The train was late again. | Once more we had to wait for the railway. | The train was not late again.
She sold the house to her brother. | Her brother bought the building from her. | Her brother sold the house to her.
Nobody in the office speaks Danish. | No one of the staff knows Danish. | Everybody in the office speaks Danish.
The bridge is open to traffic. | Cars may drive across now. | The bridge is closed to traffic.
Prices rose faster than wages. | Pay did not keep up with the cost of living. | Wages rose faster than prices.
The soup needs more salt. | It tastes rather bland so far. | The soup needs less salt.
He forgot to lock the door. | The entrance was left unlocked by him. | He remembered to lock the door.
The match ended without a winner. | Both teams finished level. | The match ended with a winner.
Water boils sooner on a mountain. | At high altitude the kettle is ready faster. | Water boils later on a mountain.
The dog chased the cat. | A cat ran away from a hound. | The cat chased the dog.
My sister is older than I am. | I was born after her. | I am older than my sister.
The museum is free on Sundays. | No ticket is needed at the end of the week. | The museum is closed on Sundays.
They cancelled the concert because of rain. | Bad weather stopped the band. | They held the concert in spite of rain.
The new battery lasts longer. | One has to recharge it less often. | The old battery lasts longer.
Few students passed the exam. | Most of the class failed. | Few students failed the exam.
The medicine must be kept cold. | Store these drugs in the fridge. | The medicine must be kept warm.
He speaks too quietly to be heard. | His voice is so low that one misses a lot. | He speaks loudly enough to be heard.
The road to the village is paved. | An asphalt street leads to the hamlet. | The road to the village is unpaved.
The company hired fifty people. | Half a hundred new employees joined the firm. | The company fired fifty people.
I agree with the last speaker. | What was said just now is my opinion too. | I disagree with the last speaker.
The window lets in a lot of light. | It is bright inside thanks to the glass. | The window keeps out a lot of light.
The patient feels better today. | Her condition has improved since yesterday. | The patient feels worse today.
This key opens the front gate. | With it one gets in at the main entrance. | This key locks the front gate.
The river flows into the lake. | The lake is fed by the stream. | The lake flows into the river.
The report arrived before the meeting. | We had the document when we sat down. | The report arrived after the meeting.
Smoking is forbidden in here. | Please put out your cigarette in this room. | Smoking is allowed in here.
The lecture was easy to follow. | One could understand the talk without effort. | The lecture was hard to follow.
He borrowed money from a friend. | A pal lent him some cash. | He lent money to a friend.
The lights are off upstairs. | It is dark on the upper floor. | The lights are on upstairs.
She arrived first and left last. | No one stayed longer than she did. | She arrived last and left first.
The tree lost its leaves. | Its branches are bare. | The tree kept its leaves.
The answer is certainly wrong. | There is no doubt that this is a mistake. | The answer is certainly right.
"""
)

HELD_OUT = _triples(
    """
The shop is not open yet. | One has to wait before one can buy anything there. | The shop is open now.
The teacher praised the pupil. | The child got kind words in class. | The pupil praised the teacher.
Everyone liked the film. | The movie pleased the whole audience. | No one liked the film.
The water is too cold to swim in. | Bathing would be chilly. | The water is warm enough to swim in.
The plane landed on time. | The flight touched down as scheduled. | The plane did not land on time.
He drives slower than his wife. | She is the faster one behind the wheel. | His wife drives slower than he does.
The tower is higher than the church. | The church is the lower of the two. | The church is higher than the tower.
The baker raised his prices. | Bread costs more now. | The baker lowered his prices.
There is hardly any milk left. | We are nearly out of it. | There is plenty of milk left.
The letter was never sent. | It did not get posted. | The letter was sent at once.
The engine starts at once. | It runs as soon as one turns the key. | The engine never starts.
The guests left early. | The visitors did not stay long. | The guests left late.
Winters here are mild. | It seldom freezes in this region. | Winters here are harsh.
The vote was unanimous. | Not one member was against it. | The vote was close.
The lake has grown smaller. | Its shores have drawn together. | The lake has grown larger.
She accepted the offer. | Her answer was yes. | She rejected the offer.
"""
)
