"""The Transformer's encoder layer in NumPy, and the gradients of attention without autograd.

Every public function is an exercise of days 1 to 7 and builds on those before it. Its numbered
comments are the first hint of the exercise.

Paper: Vaswani et al. 2017, *Attention Is All You Need*, https://arxiv.org/abs/1706.03762.

From symbols to names
    B           batch: number of sequences processed together
    T, T_q, T_k time: tokens in a sequence, of the queries, of the keys and values
    d_model     width of a token's vector between the layers
    h           heads
    d_k, d_v    width of a query or key, of a value, inside one head: d_model / h
    d_ff        width of the hidden layer of the feed-forward network
    Q, K, V     query, key, value
    W, b        w_…, b_…, used as x @ w + b
    γ, β, ε     gain, bias, eps of a layer norm

Masks are boolean and True means *may be attended to*.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int

# --- Day 1 · Softmax -----------------------------------------------------------------------------


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Turn scores into weights that sum to 1 along `axis`.

        softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, eq. 4.1 and §4.1 (overflow).
    """
    # 1. Subtract the maximum along the axis. The shift cancels in the fraction, and the largest
    #    exponential becomes exp(0) = 1, so nothing overflows.
    shifted = x - x.max(axis=axis, keepdims=True)
    # 2. Exponentiate. A score far below the maximum underflows to 0, which is right.
    exponentials = np.exp(shifted)
    # 3. Divide by the sum along the same axis; keepdims lets it broadcast.
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def log_softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Compute the logarithm of `softmax(x, axis)`, also where a weight underflows to 0.

        log softmax(x)ᵢ = xᵢ − log Σⱼ exp(xⱼ)

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, §4.1.
    """
    # 1. Subtract the maximum along the axis, as in softmax.
    shifted = x - x.max(axis=axis, keepdims=True)
    # 2. Subtract the log of the sum of exponentials. The sum is at least 1, so its log is finite.
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


# --- Day 2 · Attention ---------------------------------------------------------------------------


def attention(
    query: Float[np.ndarray, "*batch T_q d_k"],
    key: Float[np.ndarray, "*batch T_k d_k"],
    value: Float[np.ndarray, "*batch T_k d_v"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[Float[np.ndarray, "*batch T_q d_v"], Float[np.ndarray, "*batch T_q T_k"]]:
    """Compute scaled dot-product attention: each query's output is a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`. A query that may attend to
        nothing gets exactly 0.

    Raises:
        ValueError: shapes that do not match, or a mask that is not boolean.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1.
    """
    if mask is not None and mask.dtype != bool:
        raise ValueError(f"mask must be boolean (True = may be attended to), got {mask.dtype}")
    # 1. Take the dot product of every query with every key. Divide by √d_k: otherwise the scores
    #    of wide vectors are so large that the softmax saturates.
    scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])  # (…, T_q, T_k)
    if mask is not None and np.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
        raise ValueError(f"mask must broadcast to {scores.shape}, got {mask.shape}")
    # 2. Give each forbidden key the lowest finite score of the dtype, before the softmax.
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    # 3. Turn each query's scores into weights over the keys.
    weights = softmax(scores, axis=-1)  # (…, T_q, T_k)
    # 4. Set forbidden weights to exactly 0. This matters only for a query without any allowed key:
    #    its scores are all equal, so its weights are uniform.
    if mask is not None:
        weights = np.where(mask, weights, 0)
    # 5. Average the values by the weights. Return both.
    return weights @ value, weights


# --- Day 3 · Masks -------------------------------------------------------------------------------


def padding_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B 1 T"]:
    """Return the mask `(B, 1, T)`, True at the keys that are real tokens, not padding.

    Source: Vaswani et al. 2017, §3.2.3 (illegal connections are masked out before the softmax).
    """
    # 1. Compare with the padding, and insert the axis of the queries.
    return (tokens != pad)[:, np.newaxis, :]  # (B, 1, T)


def subsequent_mask(size: int) -> Bool[np.ndarray, "1 T T"]:
    """Return the causal mask `(1, T, T)`: position i may attend to positions 0 … i.

    Source: Vaswani et al. 2017, §3.1 (decoder: "masking … ensures that the predictions for position
    i can depend only on the known outputs at positions less than i") and §3.2.3.
    """
    # 1. Take the lower triangle, diagonal included. The batch axis broadcasts.
    return np.tril(np.ones((1, size, size), dtype=bool))  # (1, T, T)


def target_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B T T"]:
    """Return the decoder's mask `(B, T, T)`, True at real tokens that are not in the future.

    Source: Vaswani et al. 2017, §3.2.3.
    """
    # 1. Combine both masks: (B, 1, T) and (1, T, T) broadcast to (B, T, T).
    return padding_mask(tokens, pad) & subsequent_mask(tokens.shape[1])


# --- Day 4 · Multi-head attention ----------------------------------------------------------------


def split_heads(x: Float[np.ndarray, "B T d_model"], h: int) -> Float[np.ndarray, "B h T d_k"]:
    """Split token vectors `(B, T, d_model)` into h heads, `(B, h, T, d_k)`, d_k = d_model / h.

    Raises:
        ValueError: h does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    batch, time, d_model = x.shape
    if h < 1 or d_model % h != 0:
        raise ValueError(f"h must divide d_model, got h={h}, d_model={d_model}")
    # 1. Split the last axis into h pieces of d_k features.
    pieces = x.reshape(batch, time, h, d_model // h)  # (B, T, h, d_k)
    # 2. Swap time and heads, so that each head holds a sequence.
    return pieces.swapaxes(1, 2)  # (B, h, T, d_k)


def join_heads(x: Float[np.ndarray, "B h T d_k"]) -> Float[np.ndarray, "B T d_model"]:
    """Undo `split_heads`: concatenate the heads `(B, h, T, d_k)` to `(B, T, d_model)`.

    Source: Vaswani et al. 2017, §3.2.2 (Concat).
    """
    # 1. Swap heads and time back, so that each token's pieces are adjacent.
    pieces = x.swapaxes(1, 2)  # (B, T, h, d_k)
    # 2. Merge the last two axes.
    batch, time, h, d_k = pieces.shape
    return pieces.reshape(batch, time, h * d_k)  # (B, T, d_model)


def multi_head_attention(
    query: Float[np.ndarray, "B T_q d_model"],
    key: Float[np.ndarray, "B T_k d_model"],
    value: Float[np.ndarray, "B T_k d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T_q T_k"] | None = None,
) -> Float[np.ndarray, "B T_q d_model"]:
    """Attend in h subspaces at once, each with its own projections, and return the output only.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    `params` holds `w_q w_k w_v w_o`, `(d_model, d_model)` each, and `b_q b_k b_v b_o`, `(d_model,)`
    each. The paper's h matrices Wᵢ are side by side in one.

    Raises:
        ValueError: h does not divide d_model, or a mask that is not boolean or not 3-dimensional.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    if mask is not None and mask.ndim != 3:
        raise ValueError(f"mask must be (1|B, 1|T_q, T_k), got {mask.shape}")
    # 1. Project, then split into heads. The paper's formula has no biases, but many
    #    implementations have them, PyTorch's included.
    q = split_heads(query @ params["w_q"] + params["b_q"], h)  # (B, h, T_q, d_k)
    k = split_heads(key @ params["w_k"] + params["b_k"], h)  # (B, h, T_k, d_k)
    v = split_heads(value @ params["w_v"] + params["b_v"], h)  # (B, h, T_k, d_k)
    # 2. Insert an axis for the heads into the mask, after the batch.
    if mask is not None:
        mask = mask[:, np.newaxis]  # (1|B, 1, 1|T_q, T_k)
    # 3. Attend. The heads are one more batch dimension.
    heads, _ = attention(q, k, v, mask)  # (B, h, T_q, d_k)
    # 4. Join the heads, and apply the output projection.
    return join_heads(heads) @ params["w_o"] + params["b_o"]  # (B, T_q, d_model)


# --- Day 5 · Positional encoding -----------------------------------------------------------------


def positional_encoding(max_len: int, d_model: int) -> Float[np.ndarray, "max_len d_model"]:
    """Return sines and cosines of the positions, with wavelengths from 2π to 10000·2π.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Source: Vaswani et al. 2017, §3.5.
    """
    # 1. Compute the angles. Columns 2i and 2i + 1 share one frequency.
    position = np.arange(max_len)[:, np.newaxis]  # (max_len, 1)
    even = np.arange(0, d_model, 2)  # (⌈d_model / 2⌉,), the paper's 2i
    angles = position / 10000 ** (even / d_model)  # (max_len, ⌈d_model / 2⌉)
    # 2. Interleave sines and cosines. An odd d_model ends on a sine, so it has one cosine fewer.
    table = np.empty((max_len, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return table


# --- Day 6 · Encoder layer -----------------------------------------------------------------------


def layer_norm(
    x: Float[np.ndarray, "*batch features"],
    gain: Float[np.ndarray, "features"],
    bias: Float[np.ndarray, "features"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*batch features"]:
    """Normalize each vector to mean 0 and variance 1, then apply a learned scale and shift.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    μ and σ² are taken over the last axis; σ² is the biased variance (divisor n).

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not
    in the paper. https://arxiv.org/abs/1607.06450.
    """
    # 1. Subtract each vector's own mean.
    centered = x - x.mean(axis=-1, keepdims=True)
    # 2. Compute its variance, from the centered vector: mean(x²) − μ² would cancel digits.
    variance = (centered**2).mean(axis=-1, keepdims=True)
    # 3. Divide by the standard deviation, then scale and shift.
    return gain * centered / np.sqrt(variance + eps) + bias


def feed_forward(
    x: Float[np.ndarray, "*batch d_model"],
    w_1: Float[np.ndarray, "d_model d_ff"],
    b_1: Float[np.ndarray, "d_ff"],
    w_2: Float[np.ndarray, "d_ff d_model"],
    b_2: Float[np.ndarray, "d_model"],
) -> Float[np.ndarray, "*batch d_model"]:
    """Apply the same two-layer feed-forward network at every position.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    Source: Vaswani et al. 2017, §3.3, eq. 2.
    """
    # 1. Project up to d_ff, and apply the ReLU.
    hidden = np.maximum(0, x @ w_1 + b_1)  # (…, d_ff)
    # 2. Project back down to d_model.
    return hidden @ w_2 + b_2  # (…, d_model)


def encoder_layer(
    x: Float[np.ndarray, "B T d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T T"] | None = None,
) -> Float[np.ndarray, "B T d_model"]:
    """Apply self-attention and a feed-forward network, each with a residual connection and a norm.

        x ← LN(x + MultiHead(x, x, x))
        x ← LN(x + FFN(x))

    `params` holds the parameters of attention (`w_q w_k w_v w_o b_q b_k b_v b_o`), of the
    feed-forward network (`w_1 b_1 w_2 b_2`), of the norm after attention (`gain_1 bias_1`), and of
    the norm after the feed-forward network (`gain_2 bias_2`).

    Source: Vaswani et al. 2017, §3.1 (LayerNorm(x + Sublayer(x))) and figure 1.
    """
    # 1. Self-attention: queries, keys and values are the same tokens. Add, then normalize.
    attended = multi_head_attention(x, x, x, params, h, mask)
    x = layer_norm(x + attended, params["gain_1"], params["bias_1"])
    # 2. The feed-forward network, whose residual connection starts from the normalized sum.
    transformed = feed_forward(x, params["w_1"], params["b_1"], params["w_2"], params["b_2"])
    return layer_norm(x + transformed, params["gain_2"], params["bias_2"])


# --- Day 7 · Backward ----------------------------------------------------------------------------


def softmax_backward(
    grad_weights: Float[np.ndarray, "*batch T_k"], weights: Float[np.ndarray, "*batch T_k"]
) -> Float[np.ndarray, "*batch T_k"]:
    """Return the gradient of the scores s from that of w = softmax(s), along the last axis.

        ∂L/∂sᵢ = wᵢ · (∂L/∂wᵢ − Σⱼ wⱼ · ∂L/∂wⱼ)

    Source: the chain rule with ∂wⱼ/∂sᵢ = wⱼ (δᵢⱼ − wᵢ); Dao et al. 2022, *FlashAttention*, appendix
    B.2.
    """
    # 1. Average the incoming gradient by the weights.
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    # 2. A score's gradient is its weight times the excess of its weight's gradient over that mean.
    return weights * (grad_weights - mean)


def attention_backward(
    grad_output: Float[np.ndarray, "*batch T_q d_v"],
    query: Float[np.ndarray, "*batch T_q d_k"],
    key: Float[np.ndarray, "*batch T_k d_k"],
    value: Float[np.ndarray, "*batch T_k d_v"],
    weights: Float[np.ndarray, "*batch T_q T_k"],
) -> tuple[
    Float[np.ndarray, "*batch T_q d_k"],
    Float[np.ndarray, "*batch T_k d_k"],
    Float[np.ndarray, "*batch T_k d_v"],
]:
    """Return the gradients of `attention`'s query, key and value; dX is short for ∂L/∂X.

        O = W V             dV = Wᵀ dO,  dW = dO Vᵀ
        W = softmax(S)      dS from dW by `softmax_backward`
        S = Q Kᵀ / √d_k     dQ = dS K / √d_k,  dK = dSᵀ Q / √d_k

    Returns:
        `(grad_query, grad_key, grad_value)`. A mask needs no extra step: a hidden key has weight 0,
        and the gradient through a weight of 0 is 0.

    Source: the chain rule; Dao et al. 2022, *FlashAttention*, appendix B.2.
    """
    # 1. The output is weights @ value: the gradient of each factor contains the other, transposed.
    grad_value = np.swapaxes(weights, -2, -1) @ grad_output  # (…, T_k, d_v)
    grad_weights = grad_output @ np.swapaxes(value, -2, -1)  # (…, T_q, T_k)
    # 2. Back through the softmax, then through the division by √d_k.
    grad_scores = softmax_backward(grad_weights, weights)  # (…, T_q, T_k)
    grad_scores = grad_scores / math.sqrt(query.shape[-1])
    # 3. The scores are query @ keyᵀ: again the gradient of each factor contains the other.
    grad_query = grad_scores @ key  # (…, T_q, d_k)
    grad_key = np.swapaxes(grad_scores, -2, -1) @ query  # (…, T_k, d_k)
    return grad_query, grad_key, grad_value
