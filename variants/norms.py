"""Two norms beside LayerNorm: RMSNorm, which does not centre, and GroupNorm, which norms in groups.

They stand where `LayerNorm` of day 11 stands, and like it look at one token's vector at a time.

From symbols to names
    n               features, the width of a vector
    G               groups, which share the n features out among them
    γ, β, ε         gain, bias, eps
    μ, σ²           mean and variance of one group's features
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# --- Day 28 · Norms -------------------------------------------------------------------------------


class RMSNorm(nn.Module):
    """Give every vector a mean square of 1, then a learnt scale. Nothing is centred, nothing shifted.

        RMSNorm(x) = γ · x / √(mean(x²) + ε)

    Args:
        features: n, the width of the vectors.
        eps: ε, inside the root.

    Attributes:
        gain: γ, `(features,)`, ones at the start; the only parameter.

    Raises:
        ValueError: `features` below 1.

    Source: Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*, eq. 4; ε is not in it.
    """

    def __init__(self, features: int, eps: float):
        super().__init__()
        if features < 1:
            raise ValueError(f"features must be at least 1, and is {features}")
        # 1. One parameter, and ε.
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Norm the last axis; the mean square is each vector's own.

        Returns:
            The shape and dtype of `x`, whatever the dtype of `gain`. float16 and bfloat16 are
            computed in float32, float64 in float64: the result is right to the dtype's rounding, and
            features of 300, whose squares float16 cannot hold, are no trouble. A vector of zeros
            gives zeros, where ε is above 0.

        Raises:
            ValueError: vectors of another width than `features`.
        """
        if x.size(-1) != self.gain.numel():
            raise ValueError(f"x has {x.size(-1)} features, and the norm {self.gain.numel()}")
        # 1. Widen halves. The mean of the squares, over the features.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # (…, 1)
        # 2. Divide by its root, scale, and only then go back to the input's dtype.
        normed = wide * (mean_square + self.eps).rsqrt()  # (…, features)
        return (self.gain * normed).to(x.dtype)


class GroupNorm(nn.Module):
    """Share a vector's features out into groups, and give each group mean 0 and variance 1.

        GN(x) = γ · (x − μ) / √(σ² + ε) + β,    μ and σ² those of the feature's own group

    One group is LayerNorm. The paper norms pictures, and takes μ and σ² over the pixels as well; here
    every token is normed alone, or it would see those after it.

    Args:
        groups: G, which divides `features`. A group is n / G neighbours: group g, counted from 0, has
            the features g·n/G to (g+1)·n/G − 1.
        features: n, the width of the vectors.
        eps: ε, inside the root.

    Attributes:
        gain: γ, `(features,)`, ones at the start: one for each feature, not for each group.
        bias: β, `(features,)`, zeros at the start.

    Raises:
        ValueError: `groups` does not divide `features`, or either is below 1.

    Source: Wu & He 2018, *Group Normalization*, §3.
    """

    def __init__(self, groups: int, features: int, eps: float):
        super().__init__()
        if groups < 1 or features < 1 or features % groups != 0:
            raise ValueError(
                f"groups must divide features, and {groups} does not divide {features} into groups "
                "of at least 1"
            )
        # 1. The number of groups, two parameters, and ε.
        self.groups = groups
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Norm the groups of the last axis. σ² has the group's size for its divisor (biased).

        Returns:
            The shape and dtype of `x`, computed in float32 at least, as in `RMSNorm`. A mean of 1000
            with a deviation of 0.1 in float32 is no trouble. Groups of one feature give the bias.

        Raises:
            ValueError: vectors of another width than `features`.
        """
        if x.size(-1) != self.gain.numel():
            raise ValueError(f"x has {x.size(-1)} features, and the norm {self.gain.numel()}")
        # 1. Widen halves, and split the last axis into groups.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        split = wide.unflatten(-1, (self.groups, x.size(-1) // self.groups))  # (…, G, n/G)
        # 2. Centre each group by its own mean, and divide by its own deviation.
        centred = split - split.mean(dim=-1, keepdim=True)  # (…, G, n/G)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (…, G, 1)
        normed = (centred * (variance + self.eps).rsqrt()).flatten(-2)  # (…, features)
        # 3. Scale and shift every feature, and only then go back to the input's dtype.
        return (self.gain * normed + self.bias).to(x.dtype)
