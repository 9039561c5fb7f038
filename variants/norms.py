"""Two alternatives to day 11's `LayerNorm`: RMSNorm, which does not center, and GroupNorm.

From symbols to names
    n               features, the width of a vector
    G               groups, each of n / G features
    γ, β, ε         gain, bias, eps
    μ, σ²           mean and variance of one group's features
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# --- Day 28 · Norms -------------------------------------------------------------------------------


class RMSNorm(nn.Module):
    """Normalize every vector to a mean square of 1, then scale it. Nothing is centered or shifted.

        RMSNorm(x) = γ · x / √(mean(x²) + ε)

    Raises:
        ValueError: `features` below 1.

    Source: Zhang & Sennrich 2019, *Root Mean Square Layer Normalization*, eq. 4; ε is not in it.
    """

    def __init__(self, features: int, eps: float):
        super().__init__()
        if features < 1:
            raise ValueError(f"features must be at least 1, got {features}")
        # 1. One parameter, and ε.
        self.gain = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the last axis, in float32 at least.

        Raises:
            ValueError: vectors whose width is not `features`.
        """
        if x.size(-1) != self.gain.numel():
            raise ValueError(f"x must have {self.gain.numel()} features, got {x.size(-1)}")
        # 1. Upcast half precision. Average the squares over the features.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # (…, 1)
        # 2. Divide by the root, scale, and only then return to the input's dtype.
        normalized = wide * (mean_square + self.eps).rsqrt()  # (…, features)
        return (self.gain * normalized).to(x.dtype)


class GroupNorm(nn.Module):
    """Divide a vector's features into groups, and normalize each group to mean 0 and variance 1.

        GN(x) = γ · (x − μ) / √(σ² + ε) + β,    μ and σ² those of the feature's own group

    One group is LayerNorm. For images, the paper averages over the pixels as well; here every token is
    normalized alone, since otherwise it would depend on later tokens.

    Raises:
        ValueError: `groups` does not divide `features`, or either is below 1.

    Source: Wu & He 2018, *Group Normalization*, §3.
    """

    def __init__(self, groups: int, features: int, eps: float):
        super().__init__()
        if groups < 1 or features < 1 or features % groups != 0:
            raise ValueError(f"groups must divide features, got {groups=}, {features=}")
        # 1. The number of groups, two parameters, and ε.
        self.groups = groups
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Normalize the groups of the last axis, in float32 at least; σ² is the biased variance.

        Raises:
            ValueError: vectors whose width is not `features`.
        """
        if x.size(-1) != self.gain.numel():
            raise ValueError(f"x must have {self.gain.numel()} features, got {x.size(-1)}")
        # 1. Upcast half precision, and split the last axis into groups.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        split = wide.unflatten(-1, (self.groups, x.size(-1) // self.groups))  # (…, G, n/G)
        # 2. Center each group by its own mean, and divide by its own standard deviation.
        centered = split - split.mean(dim=-1, keepdim=True)  # (…, G, n/G)
        variance = centered.square().mean(dim=-1, keepdim=True)  # (…, G, 1)
        normalized = (centered * (variance + self.eps).rsqrt()).flatten(-2)  # (…, features)
        # 3. Scale and shift every feature, and only then return to the input's dtype.
        return (self.gain * normalized + self.bias).to(x.dtype)
