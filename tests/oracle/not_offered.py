"""Operators of PyTorch's with gradients that stowgrad does not offer, by name, each with the reason."""

from __future__ import annotations

_INTERNAL = "an internal of PyTorch's, called by a public function that is offered"
_SPARSE = "there are no sparse tensors"

NOT_OFFERED: dict[str, str] = {
    "_batch_norm_with_update": _INTERNAL,
    "_native_batch_norm_legit": _INTERNAL,
    "_softmax_backward_data": _INTERNAL,
    "_unsafe_masked_index": _INTERNAL,
    "_unsafe_masked_index_put_accumulate": _INTERNAL,
    "_upsample_bilinear2d_aa": _INTERNAL,
    "chalf": "NumPy has no complex numbers of half precision",
    "max_pool2d_with_indices_backward": _INTERNAL,
    "native_dropout_backward": _INTERNAL,
    "sparse.mm": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "to_sparse": _SPARSE,
    "torch.ops.aten._safe_softmax.default": _INTERNAL,
}
