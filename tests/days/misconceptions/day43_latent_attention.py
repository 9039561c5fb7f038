"""Day 43: what goes wrong with norms of queries and keys, and with latents."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "QKNorm",
        {
            "one_norm_for_both": (
                "Queries and keys share one norm in your answer, and so one gain. Each should have its own norm.",
                {"self.key = ...": "self.key = self.query"},
            ),
            "key_not_normalized": (
                "You normalize the queries only. A logit is a product of a query and a key, and grows with each of them.",
                {"self.key(key)": "key"},
            ),
            "query_not_normalized": (
                "You normalize the keys only. A logit is a product of a query and a key, and grows with each of them.",
                {"self.query(query)": "query"},
            ),
            "norms_swapped": (
                "The query's norm is applied to the keys, and the key's to the queries. This shows only when their gains differ.",
                {"self.query(query), self.key(key)": "self.key(query), self.query(key)"},
            ),
            "length_of_one": (
                "Your vectors have length 1, not a mean square of 1. Their product, divided by √d_k, lies between −1/√d_k and 1/√d_k, and a softmax "
                "of such logits can hardly prefer any key.",
                {"self.query(query)": "self.query(query) * query.size(-1) ** -0.5", "self.key(key)": "self.key(key) * key.size(-1) ** -0.5"},
            ),
            "another_eps_for_keys": (
                "Your `eps` reaches the queries' norm only.",
                {"self.key = RMSNorm(d_k, eps)": "self.key = RMSNorm(d_k, 1e-6)"},
            ),
            "layer_norm": (
                "Your norm subtracts the mean. RMSNorm only divides.",
                {"self.query(query)": "self.query(query - query.mean(-1, keepdim=True))", "self.key(key)": "self.key(key - key.mean(-1, keepdim=True))"},
            ),
            "over_the_tokens": (
                "You normalize over the tokens, not over a head's features: each token's norm then depends on later tokens.",
                {
                    "self.query(query)": "self.query.gain * query / (query.square().mean(-2, keepdim=True) + self.query.eps).sqrt()",
                    "self.key(key)": "self.key.gain * key / (key.square().mean(-2, keepdim=True) + self.key.eps).sqrt()",
                },
            ),
        },
    ),
    *of(
        "MultiHeadLatentAttention",
        {
            "biases": (
                "Your projections have biases, the default of `nn.Linear`. Here, no projection has a bias.",
                {
                    "self.w_q = ...": "self.w_q = nn.Linear(d, h * config.d_k)",
                    "self.w_dkv = ...": "self.w_dkv = nn.Linear(d, config.d_c)",
                    "self.w_o = ...": "self.w_o = nn.Linear(h * config.d_k, d)",
                },
            ),
            "eps_ignored": (
                "The norm of your latent has an eps of its own. It should use `config.eps`.",
                {"RMSNorm(config.d_c, config.eps)": "RMSNorm(config.d_c, 1e-6)"},
            ),
            "latent_cached_before_its_norm": (
                "Your output is right without a cache, but you cache the latent as it is, and normalize it whenever it is read. Cache the normalized latent.",
                {
                    "self.norm(self.w_dkv(x))": "self.w_dkv(x)",
                    "forward(): latent, shared = _": "latent, shared = _\nlatent = self.norm(latent)",
                    "absorbed(): keys = ...": "keys = torch.cat([self.norm(cache[..., : self.config.d_c]), cache[..., self.config.d_c :]], dim=-1).unsqueeze(1)",
                },
            ),
            "latent_not_normalized": (
                "Your latent is not normalized. Normalize it before you cache it.",
                {"self.norm(self.w_dkv(x))": "self.w_dkv(x)"},
            ),
            "keys_cached_unrotated": (
                "Your output is right without a cache, but you cache the rotary key as it is, and rotate all keys whenever they are read. Cache the rotated "
                "key: its position never changes.",
                {
                    "apply_rope(self.w_kr(x), self.angles, past)": "self.w_kr(x)",
                    "forward(): latent, shared = _": "latent, shared = _\nshared = apply_rope(shared, self.angles)",
                    "absorbed(): keys = ...": "keys = torch.cat([cache[..., : self.config.d_c], apply_rope(cache[..., self.config.d_c :], self.angles)], dim=-1).unsqueeze(1)",
                },
            ),
            "rotary_key_not_rotated": (
                "The rotary key in your cache is not rotated. Rotate it once, before you cache it: its position never changes.",
                {"apply_rope(self.w_kr(x), self.angles, past)": "self.w_kr(x)"},
            ),
            "queries_not_rotated": (
                "The rotary part of your queries is not rotated. With rotated keys alone, a score would depend on the key's absolute position.",
                {"apply_rope(rotary, self.angles, past)": "rotary"},
            ),
            "queries_begin_at_0": (
                "You rotate the queries of the chunk as if it began at position 0. The chunk follows the `past` tokens of the cache.",
                {"apply_rope(rotary, self.angles, past)": "apply_rope(rotary, self.angles, 0)"},
            ),
            "keys_begin_at_0": (
                "You rotate the rotary keys of the chunk as if it began at position 0. The chunk follows the `past` tokens of the cache.",
                {"apply_rope(self.w_kr(x), self.angles, past)": "apply_rope(self.w_kr(x), self.angles, 0)"},
            ),
            "angles_rounded": (
                "Your angles are rounded to the dtype of the model. In half precision there are too few digits for them: far from the beginning, neighboring "
                "positions get the same angle. Leave them in the dtype that `rope_angles` returns.",
                {
                    "apply_rope(self.w_kr(x), self.angles, past)": "apply_rope(self.w_kr(x), self.angles.to(x.dtype), past)",
                    "apply_rope(rotary, self.angles, past)": "apply_rope(rotary, self.angles.to(rotary.dtype), past)",
                },
            ),
            "halves_layout": (
                "You rotate features i and i + d_r/2 as a pair. Here, neighbors are a pair, as in DeepSeek's weights.",
                {
                    "apply_rope(self.w_kr(x), self.angles, past)": 'apply_rope(self.w_kr(x), self.angles, past, layout="halves")',
                    "apply_rope(rotary, self.angles, past)": 'apply_rope(rotary, self.angles, past, layout="halves")',
                },
            ),
            "rotary_key_first": (
                "Your cache holds the rotary key first. The latent comes first, here and in published caches.",
                {
                    "torch.cat([latent, rotary], dim=-1)": "torch.cat([rotary, latent], dim=-1)",
                    "forward(): latent, shared = ...": "shared, latent = cache.split([self.config.d_r, self.config.d_c], dim=-1)",
                    "keys[..., : self.config.d_c]": "keys[..., self.config.d_r :]",
                    "absorbed(): torch.cat([_, rotary], dim=-1)": "torch.cat([rotary, _], dim=-1)",
                },
            ),
            "scaled_by_the_latent": (
                "Your absorbed form divides the scores by √(d_c + d_r), the width of what it multiplies. The scores are those of keys of width d_k + d_r, "
                "only computed in a different order, so the scale is 1/√(d_k + d_r).",
                {"query = query * ...": ""},
            ),
            "scaled_by_d_k": (
                "You divide the scores by √d_k. A query has d_k + d_r features, so its product with a key is a sum of d_k + d_r terms.",
                {
                    "forward(): query = torch.cat(_, dim=-1)": "query = torch.cat(_, dim=-1) * math.sqrt(1 + self.config.d_r / self.config.d_k)",
                    "absorbed(): self.config.d_k + self.config.d_r": "self.config.d_k",
                },
            ),
            "not_causal": (
                "Your tokens attend to later ones.",
                {"forward(): causal_mask(x, cache)": "None"},
            ),
            "cached_tokens_invisible": (
                "Your mask treats the chunk as the beginning of the keys. The chunk's tokens are the *last* of T_k: each attends to all of the cache.",
                {
                    "forward(): causal_mask(x, cache)": "torch.ones(x.size(1), cache.size(1), dtype=torch.bool, device=x.device).tril()",
                    "absorbed(): causal_mask(x, cache)": "torch.ones(x.size(1), cache.size(1), dtype=torch.bool, device=x.device).tril()",
                },
            ),
            "chunk_not_cached": (
                "The cache that you return does not contain the chunk.",
                {"forward(): return _, cache": "return _, cache[:, :past] if past else cache"},
            ),
            "expanded_in_the_absorbed_form": (
                "Your absorbed form projects the latents of the cache to keys or values. The output is right, but it costs as much as `forward`. Apply W_UK "
                "to the queries and W_UV to the output: then T vectors are projected, not T_k.",
                {"absorbed(): past = ...": "return self(x, cache)"},
            ),
            "heads_not_separated": (
                "Your absorbed form mixes up the heads of W_UK: its rows hold the heads' keys one head after the other, as in the projection.",
                {"absorbed(): self.w_uk.weight.unflatten(0, (_, -1))": "self.w_uk.weight.unflatten(0, (-1, _)).transpose(0, 1)"},
            ),
        },
    ),
    *on_devices(
        "MultiHeadLatentAttention",
        {
            "mask_on_the_cpu": (
                "You make the causal mask on the CPU. Make it on the device of `x`.",
                {"forward(): causal_mask(x, cache)": "causal_mask(x, cache).cpu()"},
            ),
        },
    ),
]
