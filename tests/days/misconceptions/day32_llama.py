"""Day 32: what is carried over from days 14 and 23 that LLaMA has left behind, and what a cache is not told."""

from course.judging.misconceptions import Misconception

MODEL = "LLaMA"

# --- the lines that are changed
KEEP = "self.config = config"
EMBED = "self.embed = nn.Embedding(config.vocab, config.d_model)"
ON_CPU = 'with torch.device("cpu"):'
SIZES = "config.d_model // config.n_heads, config.context, config.base"
ANGLES = f"angles = rope_angles(\n                {SIZES}\n            )  # (context, pairs)"
BLOCK = "LLaMABlock(config, angles)"
BLOCKS = f"nn.ModuleList({BLOCK} for _ in range(config.n_layers))"
NORM = "self.norm = RMSNorm(config.d_model, config.eps)"
HEAD = "self.head = nn.Linear(config.d_model, config.vocab, bias=False)"
EVERY = "for parameter in self.parameters():"
MATRIX = "if parameter.dim() == 2:"
DRAWN = "nn.init.normal_(parameter, std=0.02)"
FITS = "past_length(tokens, cache, self.config)"
LOOK_UP = "x = self.embed(tokens)"
ENUMERATED = "enumerate(self.blocks)"
THROUGH = "x = block(x, cache, layer)"
OUT = "return self.head(self.norm(x))"


def of_block(config: str) -> dict[str, str]:
    """Blocks of another config."""
    other = BLOCKS.replace("LLaMABlock(config", f"LLaMABlock(replace(config, {config})")
    return {BLOCKS: other, KEEP: WITH_REPLACE}


WITH_REPLACE = f"from dataclasses import replace\n\n        {KEEP}"

MISCONCEPTIONS = [
    # --- the cache
    Misconception(
        "layer_not_named",
        MODEL,
        "You do not tell a block which one it is, and a block that is not told takes itself for the first. So all of them write their keys and values into "
        "layer 0 of the cache, one behind the other. Without a cache nothing shows.",
        {THROUGH: "x = block(x, cache)"},
    ),
    Misconception(
        "layers_from_1",
        MODEL,
        "You count the layers from 1. The cache counts them from 0, and for your last one it has no place.",
        {ENUMERATED: "enumerate(self.blocks, 1)"},
    ),
    Misconception(
        "cache_not_passed_on",
        MODEL,
        "You take a cache and never hand it to the blocks: each chunk is read as if it were the whole text, from position 0, and the cache stays empty.",
        {THROUGH: "x = block(x)"},
    ),
    Misconception(
        "cache_for_the_first_block",
        MODEL,
        "Only your first block gets the cache. Every layer has a past of its own, and the later ones forget theirs after each chunk.",
        {THROUGH: "x = block(x, cache if layer == 0 else None, layer)"},
    ),
    Misconception(
        "only_the_last_token_of_a_chunk",
        MODEL,
        "Once the cache holds something you read only the last token of what comes. `tokens` is the chunk that follows, and it may be several tokens long: all of them are to be "
        "read and scored.",
        {
            LOOK_UP: "x = self.embed(tokens if cache is None or not cache.length else tokens[:, -1:])"
        },
    ),
    Misconception(
        "expects_the_whole_text",
        MODEL,
        "With a cache you cut off the beginning of `tokens`, as if the whole text came in again. What comes is the new chunk alone: the whole of it is new.",
        {LOOK_UP: "x = self.embed(tokens if cache is None else tokens[:, cache.length :])"},
    ),
    Misconception(
        "last_row_with_a_cache",
        MODEL,
        "With a cache you return the scores of the last token alone. That is all that writing needs, but every token of the chunk is to be scored.",
        {OUT: "x = x if cache is None else x[:, -1:]\n        return self.head(self.norm(x))"},
    ),
    Misconception(
        "counted_once_more",
        MODEL,
        "You add the chunk to the cache's `length` yourself. The cache has counted it already, when the last layer appended: the first layer of the next chunk then takes "
        "its angles from positions that are too far on.",
        {
            OUT: "if cache is not None:\n            cache.length += tokens.size(1)\n"
            "        return self.head(self.norm(x))"
        },
    ),
    Misconception(
        "cache_kept_in_the_model",
        MODEL,
        "Your model keeps the cache that it was given, and goes on with it when the next text comes without one. What was read belongs in the caller's cache.",
        {
            KEEP: f"{KEEP}\n        self.cache = None",
            FITS: f"cache = self.cache = self.cache if cache is None else cache\n        {FITS}",
        },
    ),
    # --- the angles
    Misconception(
        "angles_of_the_whole_width",
        MODEL,
        "Your angles are made for vectors of width d_model. It is queries and keys that are turned, inside their heads, and those are d_k wide.",
        {SIZES: SIZES.replace(" // config.n_heads", "")},
    ),
    Misconception(
        "angles_of_a_key_heads_share",
        MODEL,
        "You divide d_model by n_kv_heads for the width of a head. There are fewer heads of keys, but each is as wide as a query's: d_model / n_heads.",
        {SIZES: SIZES.replace("n_heads", "n_kv_heads")},
    ),
    Misconception(
        "base_not_passed",
        MODEL,
        "Your angles have a base of 10,000 whatever the config says. LLaMA 1 and 2 have that one, LLaMA 3 has 500,000: with the wrong base its weights give nonsense.",
        {SIZES: SIZES.replace(", config.base", "")},
    ),
    Misconception(
        "as_many_angles_as_features",
        MODEL,
        "Your table of angles has d_model rows. A row is a position, and there are as many positions as the context holds: a long text has none left for its end.",
        {SIZES: SIZES.replace("config.context", "config.d_model")},
    ),
    Misconception(
        "angles_learnt",
        MODEL,
        "Your angles are a parameter: they would be trained, started at random and saved. They are given by the formula, and stay as they are.",
        {ANGLES: f"{ANGLES}\n            angles = nn.Parameter(angles.float())"},
    ),
    Misconception(
        "angles_saved",
        MODEL,
        "Your angles are a buffer that is saved with the weights. They can be computed at any time, and a published state dict has no such name. An attribute will do.",
        {ANGLES: f'{ANGLES}\n        self.register_buffer("angles", angles)'},
    ),
    Misconception(
        "table_for_each_layer",
        MODEL,
        "Each of your blocks has a copy of the table of angles: deep copies copy that, too. Make the table once, and hand the same tensor to every block.",
        {
            BLOCKS: f"clones({BLOCK}, config.n_layers)",
            KEEP: f"from implementation import clones\n\n        {KEEP}",
        },
    ),
    Misconception(
        "angles_without_numbers",
        MODEL,
        'Made on the device "meta", your model has angles without numbers. Weights are loaded afterwards; the angles are in no file. Say where they are to be made.',
        {ON_CPU: "if True:"},
    ),
    # --- the head
    Misconception(
        "head_tied",
        MODEL,
        "Your head is the embedding, as in GPT-2. LLaMA's is a matrix of its own, which a published file holds beside the table of tokens.",
        {HEAD: f"{HEAD}\n        self.head.weight = self.embed.weight"},
    ),
    Misconception(
        "no_head",
        MODEL,
        "You have no head: you score with the table of tokens, as in GPT-2. LLaMA has a matrix of its own for it, W_o.",
        {HEAD: "", OUT: "return self.norm(x) @ self.embed.weight.T"},
    ),
    Misconception(
        "head_with_a_bias",
        MODEL,
        "Your head has a bias, as `nn.Linear` has it unless it is told otherwise. There is no bias anywhere in LLaMA.",
        {HEAD: HEAD.replace(", bias=False", "")},
    ),
    Misconception(
        "head_by_another_name",
        MODEL,
        "Your head is called `lm_head`, as transformers calls it. Here it is `head`: weights find their places by name.",
        {
            HEAD: HEAD.replace("self.head", "self.lm_head"),
            OUT: OUT.replace("self.head", "self.lm_head"),
        },
    ),
    Misconception(
        "probabilities",
        MODEL,
        "You return probabilities. Logits are asked for: the loss takes its own softmax, and sampling wants to divide by a temperature first.",
        {OUT: f"{OUT}.softmax(dim=-1)"},
    ),
    Misconception(
        "log_probabilities",
        MODEL,
        "You return log-probabilities, as the generator of day 14 does. Logits are asked for, as the product leaves them.",
        {OUT: f"{OUT}.log_softmax(dim=-1)"},
    ),
    Misconception(
        "last_position_only",
        MODEL,
        "You return the scores at the last position alone. That is all that writing needs, but in training every position has something to predict.",
        {OUT: "return self.head(self.norm(x[:, -1:]))"},
    ),
    Misconception(
        "logits_in_float32",
        MODEL,
        "Your logits are float32 whatever the weights are. A loss may want them so, and can widen them; they have the weights' dtype here.",
        {OUT: f"{OUT}.float()"},
    ),
    # --- what goes in
    Misconception(
        "embedding_times_root_d_model",
        MODEL,
        "You multiply the embeddings by √d_model, as the paper of 2017 has it (§3.4). LLaMA does not. (Gemma, which looks like it, does.)",
        {LOOK_UP: "x = self.embed(tokens) * self.config.d_model**0.5"},
    ),
    Misconception(
        "positions_learnt_and_added",
        MODEL,
        "You add learnt positions to the tokens, as GPT-2 does. In LLaMA nothing is added: each layer turns its queries and keys, and that is all it knows of positions.",
        {
            EMBED: f"{EMBED}\n        self.positions = nn.Embedding(config.context, config.d_model)",
            FITS: f"past = {FITS}",
            LOOK_UP: "places = torch.arange(past, past + tokens.size(1), device=tokens.device)\n"
            "        x = self.embed(tokens) + self.positions(places)",
        },
    ),
    Misconception(
        "sinusoids_added",
        MODEL,
        "You add sines and cosines to the tokens, as the paper of 2017 does. In LLaMA nothing is added: each layer turns its queries and keys, and that is all it knows of positions.",
        {
            EMBED: f"{EMBED}\n        from implementation import PositionalEncoding\n"
            "        self.add = PositionalEncoding(config.d_model, 0.0, config.context)",
            LOOK_UP: "x = self.add(self.embed(tokens))",
        },
    ),
    Misconception(
        "token_0_is_padding",
        MODEL,
        "Your table takes token 0 for padding, and where it is read it learns nothing. There is no padding here, and token 0 is one like any other.",
        {EMBED: EMBED.replace("d_model)", "d_model, padding_idx=0)")},
    ),
    Misconception(
        "embeddings_detached",
        MODEL,
        "Your logits are right, but no gradient comes back to the table of tokens. It would stay for ever as it was drawn.",
        {LOOK_UP: "x = self.embed(tokens).detach()"},
    ),
    # --- the blocks and their norms
    Misconception(
        "one_block_many_times",
        MODEL,
        "You go through one and the same block N times: `[block] * n` repeats a reference, it copies nothing. Each of the N has weights of its own.",
        {BLOCKS: f"nn.ModuleList([{BLOCK}] * config.n_layers)"},
    ),
    Misconception(
        "blocks_in_a_plain_list",
        MODEL,
        "Your blocks lie in a plain Python list, where `nn.Module` does not see them: they are in no state dict, and no optimiser will ever train them.",
        {BLOCKS: f"[{BLOCK} for _ in range(config.n_layers)]"},
    ),
    Misconception(
        "blocks_from_last_to_first",
        MODEL,
        "You go through the blocks from the last to the first. The first in the list comes first.",
        {ENUMERATED: "reversed([*enumerate(self.blocks)])"},
    ),
    Misconception(
        "n_kv_heads_ignored",
        MODEL,
        "Your layers have as many heads of keys and values as of queries, whatever the config says. `n_kv_heads` is a field of its own; a block reads it from the config.",
        of_block("n_kv_heads=config.n_heads"),
    ),
    Misconception(
        "d_ff_is_four_times_d_model",
        MODEL,
        "Your networks are four times as wide as the model. SwiGLU has three matrices, and LLaMA makes them narrower in turn; the width is the config's `d_ff`.",
        of_block("d_ff=4 * config.d_model"),
    ),
    Misconception(
        "no_final_norm",
        MODEL,
        "You have no final norm. In pre-norm each block adds to x and nothing norms the sum, which grows from block to block; it is normed once, before the head.",
        {NORM: "", OUT: "return self.head(x)"},
    ),
    Misconception(
        "final_norm_unused",
        MODEL,
        "You have the final norm, but what goes to the head has not been through it. In pre-norm each block adds to x and nothing norms the sum.",
        {OUT: "return self.head(x)"},
    ),
    Misconception(
        "layer_norm_at_the_end",
        MODEL,
        "Your last norm is a LayerNorm, with a mean that is taken off and a bias that is added. In LLaMA every norm is an RMSNorm, this one too.",
        {
            NORM: f"from implementation import LayerNorm\n\n        {NORM.replace('RMSNorm', 'LayerNorm')}"
        },
    ),
    Misconception(
        "torchs_own_norm",
        MODEL,
        "Your last norm is torch's. It computes the same, but calls its parameter `weight`: here it is `gain`, as on day 28, and weights find their places by name.",
        {NORM: NORM.replace("RMSNorm", "nn.RMSNorm")},
    ),
    Misconception(
        "eps_of_its_own",
        MODEL,
        "Your last norm has an eps of its own, and not the config's. LLaMA of 7B was published with 1e-6, LLaMA 2 and 3 with 1e-5.",
        {NORM: NORM.replace("config.eps", "1e-6")},
    ),
    Misconception(
        "norm_first",
        MODEL,
        "Your norm comes before the blocks and not after them. Each block norms what it reads by itself; what has no norm is the sum that they leave.",
        {
            f"for layer, block in {ENUMERATED}:": f"x = self.norm(x)\n        for layer, block in {ENUMERATED}:",
            OUT: "return self.head(x)",
        },
    ),
    Misconception(
        "normed_after_each_block",
        MODEL,
        "You put the final norm after every block. The shortcut is to reach from the embeddings to the last block untouched: it is normed once, at the end.",
        {THROUGH: "x = self.norm(block(x, cache, layer))", OUT: "return self.head(x)"},
    ),
    Misconception(
        "config_not_kept",
        MODEL,
        "You do not keep the config. What writes text asks the model for `config`, to make a cache that fits.",
        {KEEP: "self._config = config", FITS: FITS.replace("self.config", "self._config")},
    ),
    # --- the start
    Misconception(
        "starts_as_torch_starts_it",
        MODEL,
        "You leave the weights as torch makes them: its tables start at N(0, 1), fifty times as wide as they should, and its linear layers uniformly.",
        {EVERY: "for parameter in ():"},
    ),
    Misconception(
        "only_the_table_is_started",
        MODEL,
        "Only your table of tokens starts as it should. Either nothing else was asked for, or the rest was made after you had gone through the parameters.",
        {EVERY: "for parameter in [self.embed.weight]:"},
    ),
    Misconception(
        "head_made_after_the_start",
        MODEL,
        "Your head is as torch made it: uniform, and several times too wide. Everything has to be there before you go through the parameters.",
        {EVERY: "for parameter in [*self.embed.parameters(), *self.blocks.parameters()]:"},
    ),
    Misconception(
        "starts_at_1",
        MODEL,
        "Your matrices start with a deviation of 1, fifty times too wide. In a network of this depth nothing would be left of the input.",
        {DRAWN: "nn.init.normal_(parameter)"},
    ),
    Misconception(
        "variance_for_deviation",
        MODEL,
        "Your matrices start with a deviation of 0.0004: you gave the variance, 0.02², to what takes the deviation.",
        {DRAWN: "nn.init.normal_(parameter, std=0.02**2)"},
    ),
    Misconception(
        "starts_by_xavier",
        MODEL,
        "Your matrices start as day 14's did, by Xavier. Here every one of them starts at N(0, 0.02²), whatever its shape.",
        {DRAWN: "nn.init.xavier_uniform_(parameter)"},
    ),
    Misconception(
        "residuals_made_smaller",
        MODEL,
        "What writes into the shortcut starts smaller by √(2 N) in your model. That is GPT-2's; LLaMA's published configurations know one deviation for all.",
        {
            EVERY: "for name, parameter in self.named_parameters():",
            DRAWN: "small = name.endswith(('w_o.weight', 'w_down.weight'))\n                nn.init.normal_("
            "parameter, std=0.02 / ((2 * config.n_layers) ** 0.5 if small else 1))",
        },
    ),
    Misconception(
        "gains_at_random",
        MODEL,
        "Your gains start at random, around 0. Only matrices do: a gain of 1 lets everything through, one of 0.02 next to nothing.",
        {MATRIX: "if True:"},
    ),
    Misconception(
        "blocks_start_equal",
        MODEL,
        "Your blocks start with the same numbers: they were copied after they had been drawn. Copies are fine; draw afterwards, or make each by itself.",
        {
            DRAWN: f"{DRAWN}\n        for block in self.blocks:\n"
            "            block.load_state_dict(self.blocks[0].state_dict())"
        },
    ),
]
