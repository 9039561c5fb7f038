"""Attention in NumPy: the first half of the Transformer before there is any autograd.

Seven small steps, each standing on the one before it, from a softmax to a whole encoder layer and
the gradients of attention by hand. Every public function is one exercise of days 1 to 7; its
numbered comments are the steps that the exercise keeps.

Paper: Vaswani et al. 2017, *Attention Is All You Need*, https://arxiv.org/abs/1706.03762.

From symbols to names
    B           batch: sequences worked on side by side
    T, T_q, T_k time: tokens in a sequence, of the queries, of the keys and values
    d_model     width of a token's vector everywhere between the layers
    h           heads
    d_k, d_v    width of a query or key, of a value, inside one head: d_model / h
    d_ff        width of the hidden layer of the feed-forward network
    Q, K, V     query, key, value
    W, b        w_…, b_…, used as x @ w + b
    γ, β        gain, bias of a layer norm

Masks are boolean and True means *may be attended to*.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int

# --- Day 1 · Softmax -----------------------------------------------------------------------------


def softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Turn scores into weights: all positive, summing to 1 along `axis`.

        softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)

    Args:
        x: scores, of any shape and any size: 1e4 and −1e4 are scores like any other.
        axis: the axis along which the weights sum to 1.

    Returns:
        Weights of the shape and dtype of `x`, which stays as it is. Adding a constant to `x` does not
        change them.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, eq. 4.1 and §4.1 (overflow).
    """
    # 1. Subtract the largest score along the axis. The shift cancels in the fraction, and the
    #    largest exponential is then exp(0) = 1: nothing overflows.
    shifted = x - x.max(axis=axis, keepdims=True)
    # 2. Exponentiate. What underflows becomes 0, which is right.
    exponentials = np.exp(shifted)
    # 3. Divide by the sum along the same axis, kept as an axis of length 1 so that it broadcasts.
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def log_softmax(x: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """The logarithm of `softmax(x, axis)`, without ever taking the log of a weight that became 0.

        log softmax(x)ᵢ = xᵢ − log Σⱼ exp(xⱼ)

    Args:
        x: scores, of any shape and any size.
        axis: the axis along which the weights sum to 1.

    Returns:
        Log-weights of the shape and dtype of `x`, which stays as it is. A score 1000 below the
        largest has a log-weight near −1000, not −∞.

    Raises:
        ValueError: `x` has no such axis (NumPy's AxisError).

    Source: Goodfellow, Bengio & Courville 2016, *Deep Learning*, §4.1.
    """
    # 1. Subtract the largest score along the axis, as in softmax.
    shifted = x - x.max(axis=axis, keepdims=True)
    # 2. Subtract the log of the sum of exponentials. The sum is at least 1, so its log is safe.
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


# --- Day 2 · Attention ---------------------------------------------------------------------------


def attention(
    query: Float[np.ndarray, "*batch T_q d_k"],
    key: Float[np.ndarray, "*batch T_k d_k"],
    value: Float[np.ndarray, "*batch T_k d_v"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[Float[np.ndarray, "*batch T_q d_v"], Float[np.ndarray, "*batch T_q T_k"]]:
    """Scaled dot-product attention: every query takes a weighted mean of the values.

        Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

    Args:
        query: what each position looks for, `(…, T_q, d_k)`, with any leading batch dimensions.
        key: what each position offers to be found by, `(…, T_k, d_k)`.
        value: what each position hands over, `(…, T_k, d_v)`; d_v may differ from d_k.
        mask: True where a query may attend to a key; broadcasts to `(…, T_q, T_k)`. A key that may
            not be attended to gets the weight 0, whatever the scores: they may reach a million.

    Returns:
        The output `(…, T_q, d_v)` and the weights `(…, T_q, T_k)`, in that order, in the inputs'
        dtype. The weights of a query sum to 1 over the keys. A query that may attend to nothing has
        weights and output of exactly 0, never NaN.

    Raises:
        ValueError: shapes that do not fit each other, or a mask that is not boolean.

    Source: Vaswani et al. 2017, §3.2.1, eq. 1.
    """
    if mask is not None and mask.dtype != bool:
        raise ValueError(f"mask must be boolean (True = may be attended to), not {mask.dtype}")
    # 1. Compare every query with every key: a dot product each. Divide by √d_k, or the scores of
    #    wide vectors grow so large that the softmax saturates.
    scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])  # (…, T_q, T_k)
    if mask is not None and np.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
        raise ValueError(
            f"mask must broadcast to (…, T_q, T_k) = {scores.shape}, and has shape {mask.shape}"
        )
    # 2. Give each forbidden key the lowest score there is, before the softmax.
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    # 3. Turn each query's scores into weights over the keys.
    weights = softmax(scores, axis=-1)  # (…, T_q, T_k)
    # 4. Set forbidden weights to exactly 0. Only a query with no key at all needs this: its scores
    #    were all equally low, so its weights came out uniform.
    if mask is not None:
        weights = np.where(mask, weights, 0)
    # 5. Mix the values by the weights. Return both.
    return weights @ value, weights


# --- Day 3 · Masks -------------------------------------------------------------------------------


def padding_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B 1 T"]:
    """Which keys are real tokens: padding fills short sequences of a batch and must not be read.

    Args:
        tokens: token ids, `(B, T)`.
        pad: the id that stands for padding.

    Returns:
        Boolean `(B, 1, T)`, True at real tokens. The axis of length 1 is that of the queries: every
        query of a sequence sees the same keys.

    Source: Vaswani et al. 2017, §3.2.3 (illegal connections are masked out before the softmax).
    """
    # 1. True where the token is not padding; then make room for the axis of the queries.
    return (tokens != pad)[:, np.newaxis, :]  # (B, 1, T)


def subsequent_mask(size: int) -> Bool[np.ndarray, "1 T T"]:
    """Which keys lie in the past: position i may attend to positions 0 … i, itself included.

    Args:
        size: the number of positions T.

    Returns:
        Boolean `(1, T, T)`: row i (a query) is True in its first i + 1 columns (keys).

    Source: Vaswani et al. 2017, §3.1 (decoder: "masking … ensures that the predictions for position
    i can depend only on the known outputs at positions less than i") and §3.2.3.
    """
    # 1. Keep the lower triangle of a square of True, diagonal included; the batch axis broadcasts.
    return np.tril(np.ones((1, size, size), dtype=bool))  # (1, T, T)


def target_mask(tokens: Int[np.ndarray, "B T"], pad: int = 0) -> Bool[np.ndarray, "B T T"]:
    """What a decoder may look at: keys that are real tokens *and* not in the future.

    Args:
        tokens: token ids of the target sequences, `(B, T)`.
        pad: the id that stands for padding.

    Returns:
        Boolean `(B, T, T)`. It hides keys only: a padded query still sees its real earlier keys.

    Source: Vaswani et al. 2017, §3.2.3.
    """
    # 1. Both conditions must hold: (B, 1, T) and (1, T, T) broadcast to (B, T, T).
    return padding_mask(tokens, pad) & subsequent_mask(tokens.shape[1])


# --- Day 4 · Multi-head attention ----------------------------------------------------------------


def split_heads(x: Float[np.ndarray, "B T d_model"], h: int) -> Float[np.ndarray, "B h T d_k"]:
    """Cut each token's vector into h pieces, one a head, and put the heads before time.

    Args:
        x: token vectors, `(B, T, d_model)`.
        h: the number of heads; it divides d_model.

    Returns:
        `(B, h, T, d_k)`, d_k = d_model / h, in the dtype of `x`. Head 0 holds the first d_k features
        of every token.

    Raises:
        ValueError: h does not divide d_model.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    batch, time, d_model = x.shape
    if h < 1 or d_model % h != 0:
        raise ValueError(f"h must divide d_model, and {h} does not divide {d_model}")
    # 1. Cut the last axis, d_model, into h pieces of d_k.
    pieces = x.reshape(batch, time, h, d_model // h)  # (B, T, h, d_k)
    # 2. Swap time and heads, so that each head holds a whole sequence.
    return pieces.swapaxes(1, 2)  # (B, h, T, d_k)


def join_heads(x: Float[np.ndarray, "B h T d_k"]) -> Float[np.ndarray, "B T d_model"]:
    """Undo `split_heads`: lay the heads' results side by side again.

    Args:
        x: one vector a head and token, `(B, h, T, d_k)`.

    Returns:
        `(B, T, d_model)`, d_model = h · d_k, in the dtype of `x`.

    Source: Vaswani et al. 2017, §3.2.2 (Concat).
    """
    # 1. Swap heads and time back, so that a token's pieces lie next to each other.
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
    """Attention in h subspaces at once, each with projections of its own.

        MultiHead(Q, K, V) = Concat(head₁, …, head_h) W^O
        headᵢ = Attention(Q Wᵢ^Q, K Wᵢ^K, V Wᵢ^V)

    Args:
        query: `(B, T_q, d_model)`.
        key: `(B, T_k, d_model)`.
        value: `(B, T_k, d_model)`.
        params: `w_q w_k w_v w_o`, `(d_model, d_model)` each, and `b_q b_k b_v b_o`, `(d_model,)`
            each. The h matrices Wᵢ of the paper lie side by side in one: head i, counted from 0,
            owns columns i·d_k to (i+1)·d_k − 1.
        h: the number of heads; it divides d_model.
        mask: True where a query may attend to a key, `(1|B, 1|T_q, T_k)`, the same for every head.

    Returns:
        The output only, `(B, T_q, d_model)`, in the inputs' dtype. Where a query may attend to
        nothing the heads give 0, so the output is `b_o`.

    Raises:
        ValueError: h does not divide d_model, or a mask that is not boolean or has not three axes.

    Source: Vaswani et al. 2017, §3.2.2.
    """
    if mask is not None and mask.ndim != 3:
        raise ValueError(f"mask must be (1|B, 1|T_q, T_k), and has shape {mask.shape}")
    # 1. Project, then split into heads. Biases are not in the paper's formula, but in many
    #    implementations, torch's among them.
    q = split_heads(query @ params["w_q"] + params["b_q"], h)  # (B, h, T_q, d_k)
    k = split_heads(key @ params["w_k"] + params["b_k"], h)  # (B, h, T_k, d_k)
    v = split_heads(value @ params["w_v"] + params["b_v"], h)  # (B, h, T_k, d_k)
    # 2. Give the mask an axis for the heads, after the batch.
    if mask is not None:
        mask = mask[:, np.newaxis]  # (1|B, 1, 1|T_q, T_k)
    # 3. Attend: the heads are one more batch dimension.
    heads, _ = attention(q, k, v, mask)  # (B, h, T_q, d_k)
    # 4. Join the heads and mix them by the output projection.
    return join_heads(heads) @ params["w_o"] + params["b_o"]  # (B, T_q, d_model)


# --- Day 5 · Positional encoding -----------------------------------------------------------------


def positional_encoding(max_len: int, d_model: int) -> Float[np.ndarray, "max_len d_model"]:
    """A fingerprint for each position: sines and cosines, each pair slower than the one before.

    The wavelengths grow from 2π towards 10000·2π.

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Args:
        max_len: the number of positions, counted from 0.
        d_model: the width of a token's vector, even or odd.

    Returns:
        A float64 table `(max_len, d_model)`: sines in the even columns, cosines in the odd ones.

    Source: Vaswani et al. 2017, §3.5.
    """
    # 1. Each pair of columns (2i, 2i + 1) has one frequency; 2i runs over the even columns.
    position = np.arange(max_len)[:, np.newaxis]  # (max_len, 1)
    even = np.arange(0, d_model, 2)  # (⌈d_model / 2⌉,), the paper's 2i
    angles = position / 10000 ** (even / d_model)  # (max_len, ⌈d_model / 2⌉)
    # 2. Interleave: sines in columns 0, 2, 4 …, cosines in columns 1, 3, 5 … An odd d_model ends on
    #    a sine and has one cosine less.
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
    """Give every vector mean 0 and variance 1, then a learnt scale and shift.

        LN(x) = γ · (x − μ) / √(σ² + ε) + β

    Args:
        x: vectors in the last axis, any leading dimensions. Their mean may dwarf their deviation:
            a mean of 1000 with a deviation of 0.1 in float32 is no trouble.
        gain: γ, `(features,)`.
        bias: β, `(features,)`.
        eps: ε, inside the root, so that a constant vector gives `bias` and not NaN.

    Returns:
        The shape and dtype of `x`, which stays as it is. μ and σ² are taken over the last axis, σ²
        with the divisor n (biased), each vector by itself.

    Source: Ba, Kiros & Hinton 2016, *Layer Normalization*, eqs. 3 and 5; ε is not
    in the paper. https://arxiv.org/abs/1607.06450.
    """
    # 1. Centre each vector by its own mean, over the features.
    centred = x - x.mean(axis=-1, keepdims=True)
    # 2. Its variance is the mean of the squares of what is left.
    variance = (centred**2).mean(axis=-1, keepdims=True)
    # 3. Divide by the deviation, then scale and shift.
    return gain * centred / np.sqrt(variance + eps) + bias


def feed_forward(
    x: Float[np.ndarray, "*batch d_model"],
    w_1: Float[np.ndarray, "d_model d_ff"],
    b_1: Float[np.ndarray, "d_ff"],
    w_2: Float[np.ndarray, "d_ff d_model"],
    b_2: Float[np.ndarray, "d_model"],
) -> Float[np.ndarray, "*batch d_model"]:
    """The same small two-layer network at every position: widen, cut off below 0, narrow again.

        FFN(x) = max(0, x W₁ + b₁) W₂ + b₂

    Args:
        x: `(…, d_model)`.
        w_1: `(d_model, d_ff)`.
        b_1: `(d_ff,)`.
        w_2: `(d_ff, d_model)`.
        b_2: `(d_model,)`.

    Returns:
        The shape and dtype of `x`. Positions do not see each other here.

    Source: Vaswani et al. 2017, §3.3, eq. 2.
    """
    # 1. Widen to d_ff and cut off below 0 (ReLU).
    hidden = np.maximum(0, x @ w_1 + b_1)  # (…, d_ff)
    # 2. Narrow back to d_model.
    return hidden @ w_2 + b_2  # (…, d_model)


def encoder_layer(
    x: Float[np.ndarray, "B T d_model"],
    params: dict[str, Float[np.ndarray, "..."]],
    h: int,
    mask: Bool[np.ndarray, "#B #T T"] | None = None,
) -> Float[np.ndarray, "B T d_model"]:
    """One layer of the encoder: look around, then think; each with a shortcut around it and a norm
    after.

        x ← LN(x + MultiHead(x, x, x))
        x ← LN(x + FFN(x))

    Args:
        x: token vectors, `(B, T, d_model)`.
        params: those of `multi_head_attention` (`w_q w_k w_v w_o b_q b_k b_v b_o`), of
            `feed_forward` (`w_1 b_1 w_2 b_2`) and of the two layer norms (`gain_1 bias_1` after
            attention, `gain_2 bias_2` after the feed-forward network).
        h: the number of heads.
        mask: True where a query may attend to a key, `(1|B, 1|T, T)`.

    Returns:
        The output only, `(B, T, d_model)`, in the dtype of `x`, which stays as it is; normed as the
        paper has it: after the addition (post-norm).

    Source: Vaswani et al. 2017, §3.1 (LayerNorm(x + Sublayer(x))) and figure 1.
    """
    # 1. Self-attention: queries, keys and values are the same tokens. Add what it found to x, then
    #    norm.
    attended = multi_head_attention(x, x, x, params, h, mask)
    x = layer_norm(x + attended, params["gain_1"], params["bias_1"])
    # 2. The feed-forward network works on the normed sum, and is added to that same sum. Norm
    #    again.
    transformed = feed_forward(x, params["w_1"], params["b_1"], params["w_2"], params["b_2"])
    return layer_norm(x + transformed, params["gain_2"], params["bias_2"])


# --- Day 7 · Backward ----------------------------------------------------------------------------


def softmax_backward(
    grad_weights: Float[np.ndarray, "*batch T_k"], weights: Float[np.ndarray, "*batch T_k"]
) -> Float[np.ndarray, "*batch T_k"]:
    """From the gradient of the softmax's output to that of its input, along the last axis.

        ∂L/∂sᵢ = wᵢ · (∂L/∂wᵢ − Σⱼ wⱼ · ∂L/∂wⱼ)

    Args:
        grad_weights: ∂L/∂w, `(…, T_k)`.
        weights: w = softmax(s), `(…, T_k)`, as the forward pass computed them.

    Returns:
        ∂L/∂s, `(…, T_k)`, in the inputs' dtype; they stay as they are. It sums to 0 along the last
        axis, for a common shift of the scores changes nothing. Where a weight is 0 it is 0.

    Source: the chain rule with ∂wⱼ/∂sᵢ = wⱼ (δᵢⱼ − wᵢ); Dao et al. 2022, *FlashAttention*, appendix
    B.2.
    """
    # 1. The mean of the incoming gradient, weighted by the weights: what a common shift would earn.
    mean = (weights * grad_weights).sum(axis=-1, keepdims=True)
    # 2. A score gains as far as its weight's gradient exceeds that mean, in proportion to its
    #    weight.
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
    """Backpropagation through `attention`, by hand.

    With O = W V, W = softmax(S) and S = Q Kᵀ / √d_k, and dX short for ∂L/∂X:

        dV = Wᵀ dO        dW = dO Vᵀ        dS from dW by softmax_backward
        dQ = dS K / √d_k  dK = dSᵀ Q / √d_k

    Args:
        grad_output: ∂L/∂output, `(…, T_q, d_v)`.
        query: as given to `attention`, `(…, T_q, d_k)`, with the same leading dimensions as the
            rest.
        key: likewise, `(…, T_k, d_k)`.
        value: likewise, `(…, T_k, d_v)`.
        weights: as `attention` returned them, `(…, T_q, T_k)`; taken as given. A mask needs no care
            here: hidden keys have weight 0, and the gradient through a weight of 0 is 0.

    Returns:
        `(grad_query, grad_key, grad_value)`, each of the shape and dtype of what it is the
        gradient of.

    Source: the chain rule; Dao et al. 2022, *FlashAttention*, appendix B.2.
    """
    # 1. The output is weights @ value: the gradient of each factor is the other one, transposed.
    grad_value = np.swapaxes(weights, -2, -1) @ grad_output  # (…, T_k, d_v)
    grad_weights = grad_output @ np.swapaxes(value, -2, -1)  # (…, T_q, T_k)
    # 2. Back through the softmax, then through the division by √d_k.
    grad_scores = softmax_backward(grad_weights, weights)  # (…, T_q, T_k)
    grad_scores = grad_scores / math.sqrt(query.shape[-1])
    # 3. The scores are query @ keyᵀ: again each factor gets the other one.
    grad_query = grad_scores @ key  # (…, T_q, d_k)
    grad_key = np.swapaxes(grad_scores, -2, -1) @ query  # (…, T_k, d_k)
    return grad_query, grad_key, grad_value
