"""Day 32: what is carried over from days 14 and 23 that LLaMA has left behind, and what a cache is not told."""

from course.judging.misconceptions import of

MISCONCEPTIONS = of(
    "LLaMA",
    {
        "head_unused": (
            "You have a head, and you multiply by the embedding matrix instead of it, as GPT-2 does. The logits are those of `head`.",
            {"self.head(_)": "nn.functional.linear(_, self.embed.weight)"},
        ),
        "angles_in_half_precision": (
            "You round the angles to the weights' dtype. From position 256 on bfloat16 has no number between n and n + 2: neighbors are rotated by the same angle. Angles stay in float32 at least.",
            {"x = self.embed(tokens)": "x = self.embed(tokens)\nfor block in self.blocks:\n    block.self_attn.angles = block.self_attn.angles.to(x.dtype)"},
        ),
        "angles_in_float32": (
            "Your angles are in float32, in a float64 model too, and its logits have only seven digits. `rope_angles` returns what float64 needs.",
            {"angles = _": "angles = _\nangles = angles.float()"},
        ),
        "dropout_after_the_embedding": (
            "You drop features of the embeddings in training. LLaMA has no dropout.",
            {"self.embed(tokens)": "nn.functional.dropout(self.embed(tokens), 0.1, self.training)"},
        ),
        "embedding_not_started": (
            "Your embedding starts as torch makes it, N(0, 1), fifty times too wide: only the linear layers are started. Every matrix is initialized, the embedding too.",
            {"self.parameters()": "[*self.blocks.parameters(), *self.head.parameters()]"},
        ),
        # --- the cache
        "layer_not_named": (
            "All your blocks write their keys and values into layer 0 of the cache, one behind the other, as they do where a block is not told which one it "
            "is. Without a cache nothing shows.",
            {"block(x, cache, layer, _)": "block(x, cache, 0, _)"},
        ),
        "cache_not_passed_on": (
            "You take a cache and never hand it to the blocks: each chunk is read as if it were the whole text, from position 0, and the cache stays empty.",
            {"block(x, cache, layer, _)": "block(x)"},
        ),
        "only_the_last_token_of_a_chunk": (
            "Once the cache holds something you read only the last token of what comes. `tokens` is the chunk that follows, and it may be several tokens long: "
            "read and score all of them.",
            {"self.embed(tokens)": "self.embed(tokens if cache is None or not cache.length else tokens[:, -1:])"},
        ),
        "expects_the_whole_text": (
            "With a cache you cut off the beginning of `tokens`, as if the whole text came in again. What comes is the new chunk alone: the whole of it is new.",
            {"self.embed(tokens)": "self.embed(tokens if cache is None else tokens[:, cache.length :])"},
        ),
        "cache_kept_in_the_model": (
            "Your model keeps the cache that it was given, and continues it when the next text comes without one. What was read belongs in the caller's cache.",
            {
                "self.embed = _": "self.cache = None\nself.embed = _",
                "past = _": "cache = self.cache = self.cache if cache is None else cache\npast = _",
            },
        ),
        # --- the angles
        "base_not_passed": (
            "Your angles have a base of 10,000 whatever the config says. LLaMA 1 and 2 have that one, LLaMA 3 has 500,000: with the wrong base its weights "
            "give nonsense.",
            {"config.base": ""},
        ),
        "angles_learned": (
            "Your angles are a parameter: they would be trained and saved. They are given by the formula, and stay as they are.",
            {"angles = _": "angles = _\nangles = nn.Parameter(angles.float())"},
        ),
        "angles_saved": (
            "Your angles are a buffer that is saved with the weights. They can be computed at any time, and a published state dict has no such name. An "
            "attribute will do.",
            {"with torch.device('cpu'):\n    _": "with torch.device('cpu'):\n    _\nself.register_buffer('angles', angles)"},
        ),
        "table_for_each_layer": (
            "Each of your blocks has a copy of the table of angles: deep copies copy that, too. Make the table once, and hand the same tensor to every block.",
            {
                "self.config = config": "from implementation import clones\nself.config = config",
                "nn.ModuleList(...)": "clones(LLaMABlock(config, angles), config.n_layers)",
            },
        ),
        "angles_without_numbers": (
            'Made on the device "meta", your model has angles without numbers. Weights are loaded afterwards; the angles are in no file. Say where they are to '
            "be made.",
            {"with torch.device('cpu'):\n    _": "if True:\n    _"},
        ),
        # --- the head
        "head_tied": (
            "Your head is the embedding, as in GPT-2. LLaMA's is a matrix of its own, which a published file holds beside the table of tokens.",
            {"self.head = _": "self.head = _\nself.head.weight = self.embed.weight"},
        ),
        "head_by_another_name": (
            "Your head is called `lm_head`, as transformers calls it. Here it is `head`: weights find their places by name.",
            {"self.head = _": "self.lm_head = _", "self.head": "self.lm_head"},
        ),
        "probabilities": (
            "You return probabilities. Logits are asked for: the loss takes its own softmax, and sampling wants to divide by a temperature first.",
            {"return _": "return _.softmax(dim=-1)"},
        ),
        "logits_in_float32": (
            "Your logits are float32 whatever the weights are. A loss may want them so, and can widen them; they have the weights' dtype here.",
            {"return _": "return _.float()"},
        ),
        # --- what goes in
        "embedding_times_root_d_model": (
            "You multiply the embeddings by √d_model, as the paper of 2017 has it (§3.4). LLaMA does not. (Gemma, which looks like it, does.)",
            {"self.embed(tokens)": "self.embed(tokens) * self.config.d_model**0.5"},
        ),
        "positions_learned_and_added": (
            "You add learned positions to the tokens, as GPT-2 does. In LLaMA nothing is added: each layer turns its queries and keys, and that is all it knows "
            "of positions.",
            {
                "self.embed = _": "self.embed = _\nself.positions = nn.Embedding(config.context, config.d_model)",
                "x = self.embed(tokens)": "places = torch.arange(past, past + tokens.size(1), device=tokens.device)\n"
                "x = self.embed(tokens) + self.positions(places)",
            },
        ),
        "token_0_is_padding": (
            "Your table takes token 0 for padding, and where it is read it learns nothing. There is no padding here, and token 0 is one like any other.",
            {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
        ),
        # --- the blocks and their norms
        "one_block_many_times": (
            "You go through one and the same block N times: `[block] * n` repeats a reference, it copies nothing. Each of the N has weights of its own.",
            {"(_ for _ in ...)": "[_] * config.n_layers"},
        ),
        "blocks_in_a_plain_list": (
            "Your blocks are in a plain Python list, where `nn.Module` does not see them: they are in no state dict, and no optimizer will ever train them.",
            {"nn.ModuleList(...)": "[LLaMABlock(config, angles) for _ in range(config.n_layers)]"},
        ),
        "n_kv_heads_ignored": (
            "Your layers have as many heads of keys and values as of queries, whatever the config says. `n_kv_heads` is a field of its own; a block reads it "
            "from the config.",
            {
                "self.config = config": "from dataclasses import replace\nself.config = config",
                "LLaMABlock(config, angles)": "LLaMABlock(replace(config, n_kv_heads=config.n_heads), angles)",
            },
        ),
        "d_ff_is_four_times_d_model": (
            "Your networks are four times as wide as the model. SwiGLU has three matrices, and LLaMA makes them narrower in turn; the width is the config's "
            "`d_ff`.",
            {
                "self.config = config": "from dataclasses import replace\nself.config = config",
                "LLaMABlock(config, angles)": "LLaMABlock(replace(config, d_ff=4 * config.d_model), angles)",
            },
        ),
        "no_final_norm": (
            "You have no final norm. In pre-norm each block adds to x and nothing normalizes the sum, which grows from block to block; it is normalized once, before the head.",
            {"self.norm = ...": "", "self.norm(x)": "x"},
        ),
        "eps_of_its_own": (
            "Your last norm has an eps of its own, and not the config's. LLaMA of 7B was published with 1e-6, LLaMA 2 and 3 with 1e-5.",
            {"config.eps": "1e-6"},
        ),
        "config_not_kept": (
            "You do not keep the config. What writes text asks the model for `config`, to make a cache that fits.",
            {"self.config = config": "self._config = config", "self.config": "self._config"},
        ),
        # --- the start
        "starts_as_torch_starts_it": (
            "Your weights start too wide, as torch's own layers do: the embedding matrix at N(0, 1), fifty times as wide as it should, and linear layers "
            "uniformly.",
            {"self.parameters()": "()"},
        ),
        "residuals_made_smaller": (
            "The matrices that write to the residual stream start too narrow, as in GPT-2, where they are smaller by √(2 N). LLaMA's published configurations "
            "know one standard deviation for all.",
            {
                "for parameter in self.parameters():\n    ...": "for name, parameter in self.named_parameters():\n"
                "    if parameter.dim() == 2:\n"
                "        small = name.endswith(('w_o.weight', 'w_down.weight'))\n"
                "        nn.init.normal_(parameter, std=0.02 / ((2 * config.n_layers) ** 0.5 if small else 1))"
            },
        ),
    },
)
