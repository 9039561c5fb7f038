"""Day 32: what is carried over from days 14 and 23 that LLaMA has left behind, and what a cache is not told."""

from course.judging.misconceptions import of

MISCONCEPTIONS = of(
    "LLaMA",
    {
        "head_unused": (
            "You create `head`, but multiply by the embedding matrix instead, as GPT-2 does. The logits are the output of `head`.",
            {"self.head(_)": "nn.functional.linear(_, self.embed.weight)"},
        ),
        "angles_in_half_precision": (
            "You round the angles to the dtype of the weights. From position 256 on, bfloat16 can represent only every second number, so neighboring tokens "
            "are rotated by the same angle. Keep the angles at least in float32.",
            {"x = self.embed(tokens)": "x = self.embed(tokens)\nfor block in self.blocks:\n    block.self_attn.angles = block.self_attn.angles.to(x.dtype)"},
        ),
        "angles_in_float32": (
            "Your angles are always float32, so the logits of a float64 model have only seven correct digits. Keep the dtype that `rope_angles` returns.",
            {"angles = _": "angles = _\nangles = angles.float()"},
        ),
        "dropout_after_the_embedding": (
            "You apply dropout to the embeddings in training mode. LLaMA has no dropout.",
            {"self.embed(tokens)": "nn.functional.dropout(self.embed(tokens), 0.1, self.training)"},
        ),
        "embedding_not_started": (
            "Your embedding keeps PyTorch's default initialization, N(0, 1), fifty times too wide: you initialize only the linear layers. Initialize every "
            "matrix, including the embedding.",
            {"self.parameters()": "[*self.blocks.parameters(), *self.head.parameters()]"},
        ),
        # --- the cache
        "layer_not_named": (
            "All your blocks write their keys and values to layer 0 of the cache, one after the other. This happens if a block does not receive its layer's "
            "number. Without a cache, the mistake has no effect.",
            {"block(x, cache, layer, _)": "block(x, cache, 0, _)"},
        ),
        "cache_not_passed_on": (
            "You accept a cache but never pass it to the blocks. Each chunk is treated as if it were the whole text, from position 0, and the cache stays "
            "empty.",
            {"block(x, cache, layer, _)": "block(x)"},
        ),
        "only_the_last_token_of_a_chunk": (
            "Once the cache holds something, you use only the last token of `tokens`. `tokens` is the chunk that follows, which can have several tokens: "
            "compute logits for all of them.",
            {"self.embed(tokens)": "self.embed(tokens if cache is None or not cache.length else tokens[:, -1:])"},
        ),
        "expects_the_whole_text": (
            "With a cache, you cut off the start of `tokens`, as if the caller passed the whole text again. The caller passes only the new chunk, so use all "
            "of it.",
            {"self.embed(tokens)": "self.embed(tokens if cache is None else tokens[:, cache.length :])"},
        ),
        "cache_kept_in_the_model": (
            "Your model keeps the cache that it was given, and uses it again when the next text comes without a cache. Past tokens belong only in the "
            "caller's cache.",
            {
                "self.embed = _": "self.cache = None\nself.embed = _",
                "past = _": "cache = self.cache = self.cache if cache is None else cache\npast = _",
            },
        ),
        # --- the angles
        "base_not_passed": (
            "Your angles always have the base 10,000, whatever the config says. LLaMA 1 and 2 use this base, but LLaMA 3 uses 500,000. With the wrong base "
            "its weights predict worse, and no error is raised.",
            {"config.base": ""},
        ),
        "angles_learnt": (
            "Your angles are a parameter, so they would be trained and saved. The formula determines them, and they must not change.",
            {"angles = _": "angles = _\nangles = nn.Parameter(angles.float())"},
        ),
        "angles_saved": (
            "Your angles are a buffer that is saved with the weights. They can be computed at any time, and a published state dict does not contain them. Use "
            "a plain attribute.",
            {"with torch.device('cpu'):\n    _": "with torch.device('cpu'):\n    _\nself.register_buffer('angles', angles)"},
        ),
        "table_for_each_layer": (
            "Each of your blocks has its own copy of the table of angles, because deep copies copy it, too. Create the table once, and pass the same tensor "
            "to every block.",
            {
                "self.config = config": "from implementation import clones\nself.config = config",
                "nn.ModuleList(...)": "clones(LLaMABlock(config, angles), config.n_layers)",
            },
        ),
        "angles_without_numbers": (
            'When your model is created on the device "meta", its angles have no values. Weights are loaded later, but no file contains the angles. Specify a '
            "device for them.",
            {"with torch.device('cpu'):\n    _": "if True:\n    _"},
        ),
        # --- the head
        "head_tied": (
            "Your head is tied to the embedding, as in GPT-2. LLaMA's head is a separate matrix, and a published file contains both.",
            {"self.head = _": "self.head = _\nself.head.weight = self.embed.weight"},
        ),
        "head_by_another_name": (
            "Your head is called `lm_head`, as in the `transformers` library. Here it is called `head`: weights are loaded by name.",
            {"self.head = _": "self.lm_head = _", "self.head": "self.lm_head"},
        ),
        "probabilities": (
            "You return probabilities. Return logits: the loss applies its own softmax, and sampling first divides by a temperature.",
            {"return _": "return _.softmax(dim=-1)"},
        ),
        "logits_in_float32": (
            "Your logits are float32 whatever the dtype of the weights is. They should have the dtype of the weights. A loss that needs float32 can convert "
            "them.",
            {"return _": "return _.float()"},
        ),
        # --- what goes in
        "embedding_times_root_d_model": (
            "You multiply the embeddings by √d_model, as *Attention Is All You Need* does (§3.4). LLaMA does not. (Gemma, a similar model, does.)",
            {"self.embed(tokens)": "self.embed(tokens) * self.config.d_model**0.5"},
        ),
        "positions_learnt_and_added": (
            "You add learned positions to the tokens, as GPT-2 does. LLaMA adds nothing: each layer rotates its queries and keys, which is the only position "
            "information.",
            {
                "self.embed = _": "self.embed = _\nself.positions = nn.Embedding(config.context, config.d_model)",
                "x = self.embed(tokens)": "places = torch.arange(past, past + tokens.size(1), device=tokens.device)\n"
                "x = self.embed(tokens) + self.positions(places)",
            },
        ),
        "token_0_is_padding": (
            "Your embedding treats token 0 as padding, so its row gets no gradient where token 0 is an input. There is no padding here, and token 0 is an "
            "ordinary token.",
            {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
        ),
        # --- the blocks and their norms
        "one_block_many_times": (
            "You use the same block N times: `[block] * n` repeats a reference and copies nothing. Each of the N blocks needs its own weights.",
            {"(_ for _ in ...)": "[_] * config.n_layers"},
        ),
        "blocks_in_a_plain_list": (
            "Your blocks are in a plain Python list, whose contents `nn.Module` ignores. They are missing from the state dict, and the optimizer does not "
            "train them.",
            {"nn.ModuleList(...)": "[LLaMABlock(config, angles) for _ in range(config.n_layers)]"},
        ),
        "n_kv_heads_ignored": (
            "Your layers have as many KV heads as query heads, whatever the config says. `n_kv_heads` is a separate field, which a block reads from the "
            "config.",
            {
                "self.config = config": "from dataclasses import replace\nself.config = config",
                "LLaMABlock(config, angles)": "LLaMABlock(replace(config, n_kv_heads=config.n_heads), angles)",
            },
        ),
        "d_ff_is_four_times_d_model": (
            "Your feed-forward networks are four times as wide as the model. SwiGLU has three matrices instead of two, so LLaMA makes them narrower: the "
            "width is the config's `d_ff`.",
            {
                "self.config = config": "from dataclasses import replace\nself.config = config",
                "LLaMABlock(config, angles)": "LLaMABlock(replace(config, d_ff=4 * config.d_model), angles)",
            },
        ),
        "no_final_norm": (
            "Your model has no final norm. In pre-norm each block adds to x without normalizing the sum, so the sum grows from block to block. Normalize it "
            "once, before the head.",
            {"self.norm = ...": "", "self.norm(x)": "x"},
        ),
        "eps_of_its_own": (
            "Your final norm does not use the config's eps. LLaMA 7B was published with an eps of 1e-6, LLaMA 2 and 3 with 1e-5.",
            {"config.eps": "1e-6"},
        ),
        "config_not_kept": (
            "You do not store the config. Code that generates text reads `config` from the model, to create a cache that fits.",
            {"self.config = config": "self._config = config", "self.config": "self._config"},
        ),
        # --- the start
        "starts_as_torch_starts_it": (
            "Your weights keep PyTorch's default initialization, which is too wide: the embedding matrix is drawn from N(0, 1), fifty times the required "
            "standard deviation, and linear layers from a uniform distribution.",
            {"self.parameters()": "()"},
        ),
        "residuals_made_smaller": (
            "The matrices that write to the residual stream are initialized with a smaller standard deviation, as in GPT-2, which divides it by √(2 N). "
            "LLaMA's published configurations have one standard deviation for all matrices.",
            {
                "for parameter in self.parameters():\n    ...": "for name, parameter in self.named_parameters():\n"
                "    if parameter.dim() == 2:\n"
                "        small = name.endswith(('w_o.weight', 'w_down.weight'))\n"
                "        nn.init.normal_(parameter, std=0.02 / ((2 * config.n_layers) ** 0.5 if small else 1))"
            },
        ),
    },
)
