"""Day 9 · Multi-head attention

Lesson  course lesson 9
Hints   course hint 9     (one more each time; the first gives the steps of one way)
Check   course watch 9    (checks at every save; `course check 9` checks once)

Replace each `raise NotImplementedError` with your own code. Choose your own way.
Earlier days' parts come from the reference, so you can skip a day.
`Raises` lists what the reference refuses; no check tests that your code refuses it too.

What is imported from them below:

    attention(query, key, value, mask=None, dropout=None)
        Compute scaled dot-product attention: each query's output is a weighted mean of the values.
        Returns: The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`; both are 0 where every key is
        masked.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from implementation import attention


class MultiHeadedAttention(nn.Module):
    """Attend in h subspaces at once, each with its own projections; d_k = d_v = d_model / h.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    - `h` divides `d_model`. `dropout` is the probability of dropping an attention weight in training.
    - `w_q`, `w_k`, `w_v` and `w_o` are each an `nn.Linear(d_model, d_model)` with a bias. Nothing else
      is a parameter or in the state dict. Each holds the paper's h matrices Wᵢ side by side: head i,
      counted from 0, owns outputs i·d_k to (i+1)·d_k − 1 of `w_q`, `w_k` and `w_v`, and the same inputs
      of `w_o`.
    - `weights` holds the attention weights of the last call, `(B, h, T_q, T_k)`; it is None before the
      first call.

    Raises:
        ValueError: h does not divide d_model; or a mask that is not boolean or not `(1|B, 1|T_q, T_k)`.

    Source: Vaswani et al. 2017, §3.2.2.
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        query: Float[Tensor, "B T_q d_model"],
        key: Float[Tensor, "B T_k d_model"],
        value: Float[Tensor, "B T_k d_model"],
        mask: Bool[Tensor, "#B #T_q T_k"] | None = None,
    ) -> Float[Tensor, "B T_q d_model"]:
        """Attend from `query` to `key` and `value`; the mask applies to every head.

        - `mask` is True where a query may attend to a key, `(1|B, 1|T_q, T_k)`; it is the same for
          every head.
        - Return `(B, T_q, d_model)` in the dtype of the parameters and inputs, correct to its rounding, in
          half precision and float64 as well.
        - Where a query may attend to nothing, the heads return 0, so the output is the bias of `w_o`.
        """
        raise NotImplementedError
