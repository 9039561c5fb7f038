"""Day 14: what goes wrong where the parts become a model."""

from course.judging.misconceptions import Misconception

PROJ = "self.proj = nn.Linear(d_model, vocab)"
SCORES = "self.proj(x).log_softmax(dim=-1)"

ENCODE = "return self.encoder(self.src_embed(src), src_mask)"
DECODE = "return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)"
FORWARD = "return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)"

ATTENTION = "return MultiHeadedAttention(h, d_model, dropout)"
NETWORK = "return PositionwiseFeedForward(d_model, d_ff, dropout)"
EMBED = "nn.Sequential(Embeddings(d_model, vocab), PositionalEncoding(d_model, dropout))"
ENCODER_LAYER = "EncoderLayer(d_model, self_attention(), feed_forward(), dropout, norm)"
DECODER_PARTS = "d_model, self_attention(), self_attention(), feed_forward(), dropout, norm"
TABLES = "embed(src_vocab),\n        embed(tgt_vocab),"
EVERY_MODULE = "for module in model.modules():\n        if isinstance(module, nn.Linear):"
XAVIER = "nn.init.xavier_uniform_(module.weight)"
TIE_TARGET = "model.tgt_embed[0].lut.weight = table"
TIE_OUTPUT = "model.generator.proj.weight = table"


def added(mask: str) -> str:
    """A mask of 0 and −∞ made of a boolean one."""
    return (
        f"None if {mask} is None else torch.zeros({mask}.shape, device={mask}.device)"
        f".masked_fill(~{mask}, -math.inf)"
    )


def annotated(arguments: str) -> str:
    """The `make_model` of a well-known annotated Transformer."""
    return f"""def make_model(src_vocab, tgt_vocab, {arguments}, d_model=512, d_ff=2048, h=8, dropout=0.1):
    c = copy.deepcopy
    attn = MultiHeadedAttention(h, d_model)
    ff = PositionwiseFeedForward(d_model, d_ff, dropout)
    position = PositionalEncoding(d_model, dropout)
    model = EncoderDecoder(
        Encoder(EncoderLayer(d_model, c(attn), c(ff), dropout), {arguments[0]}),
        Decoder(DecoderLayer(d_model, c(attn), c(attn), c(ff), dropout), {arguments[0]}),
        nn.Sequential(Embeddings(d_model, src_vocab), c(position)),
        nn.Sequential(Embeddings(d_model, tgt_vocab), c(position)),
        Generator(d_model, tgt_vocab),
    )
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model
"""


MISCONCEPTIONS = [
    # --- Generator
    Misconception(
        "probabilities",
        "Generator",
        "You return probabilities. What is asked for are their logarithms: a loss adds logarithms up, and the smallest "
        "probabilities do not survive as floating-point numbers.",
        {"log_softmax": "softmax"},
    ),
    Misconception(
        "log_of_a_softmax_with_a_floor",
        "Generator",
        "You take the logarithm after the softmax, and add a small number so that it never meets a 0. Then no token can "
        "be unlikelier than that number, and a token that is far off gets no gradient any more. The logarithm of a softmax has "
        "a form of its own, in which nothing vanishes (day 1).",
        {SCORES: "(self.proj(x).softmax(dim=-1) + 1e-9).log()"},
    ),
    Misconception(
        "log_of_a_softmax",
        "Generator",
        "You take the softmax first and its logarithm after. Where one score is about a hundred above another, the "
        "other's probability is 0 in float32, and its logarithm −∞. Both steps in one avoid that (day 1).",
        {SCORES: "self.proj(x).softmax(dim=-1).log()"},
    ),
    Misconception(
        "maximum_not_subtracted",
        "Generator",
        "You subtract the logarithm of the sum of the exponentials, and take the exponentials of the scores as they are: "
        "beyond 88 they overflow in float32 and all the log-probabilities become −∞.",
        {
            "return self.proj(x).log_softmax(dim=-1)": "scores = self.proj(x)\n"
            "        return scores - scores.exp().sum(dim=-1, keepdim=True).log()"
        },
    ),
    Misconception(
        "scores_as_they_are",
        "Generator",
        "You return the scores of the linear layer. Their exponentials do not sum to 1: what is missing is the softmax, "
        "in its logarithmic form.",
        {SCORES: "self.proj(x)"},
    ),
    Misconception(
        "softmax_without_an_axis",
        "Generator",
        "You do not say along which axis the softmax runs. torch then guesses from the number of axes, and with three of "
        "them it takes the batch: the sentences compete, not the tokens.",
        {SCORES: "F.log_softmax(self.proj(x))"},
    ),
    Misconception(
        "softmax_over_axis_1",
        "Generator",
        "Your softmax runs along axis 1. That is the vocabulary for one state of each sequence; for whole sequences it "
        "is time, so that the positions compete. The vocabulary is always the last axis.",
        {"dim=-1": "dim=1"},
    ),
    Misconception(
        "softmax_over_time",
        "Generator",
        "Your softmax runs along the last axis but one, which is time: the positions compete for each token. At every "
        "position it is the tokens that compete.",
        {"dim=-1": "dim=-2"},
    ),
    Misconception(
        "generator_without_bias",
        "Generator",
        "Your projection has no bias. It has one here, also where its matrix is tied to the embeddings: it learns how "
        "frequent each token is.",
        {PROJ: "self.proj = nn.Linear(d_model, vocab, bias=False)"},
    ),
    Misconception(
        "scores_scaled_down",
        "Generator",
        "You divide the states by √d_model before the projection. Some later models do so where the matrix is tied (T5); "
        "this one does not: it is the embeddings that are scaled, on their way in.",
        {SCORES: "self.proj(x / math.sqrt(x.size(-1))).log_softmax(dim=-1)"},
    ),
    Misconception(
        "scores_scaled_up",
        "Generator",
        "You multiply the states by √d_model before the projection. That factor belongs to the embeddings, on their way in (§3.4).",
        {SCORES: "self.proj(x * math.sqrt(x.size(-1))).log_softmax(dim=-1)"},
    ),
    Misconception(
        "only_the_last_position",
        "Generator",
        "You keep only the last position. Decoding needs no other, but training has a loss at every one; whoever decodes "
        "picks the last position before calling the generator.",
        {SCORES: "self.proj(x[..., -1:, :]).log_softmax(dim=-1)"},
    ),
    Misconception(
        "log_probs_in_float32",
        "Generator",
        "Your log-probabilities are float32 whatever came in. Compute as wide as you like; the result has the dtype of "
        "the states.",
        {"dim=-1": "dim=-1, dtype=torch.promote_types(x.dtype, torch.float32)"},
    ),
    # --- EncoderDecoder: what forward returns
    Misconception(
        "generator_in_forward",
        "EncoderDecoder",
        "Your forward ends in the generator. It returns the decoder's states, d_model wide; the caller applies "
        "`model.generator`, because decoding wants it for the last position alone, and V numbers a position are a lot.",
        {FORWARD: FORWARD.replace("self.decode(", "self.generator(self.decode(", 1) + ")"},
    ),
    Misconception(
        "generator_in_decode",
        "EncoderDecoder",
        "Your decode ends in the generator. It returns states, d_model wide; the caller applies `model.generator` to as "
        "many of them as it needs.",
        {DECODE: DECODE.replace("self.decoder(", "self.generator(self.decoder(", 1) + ")"},
    ),
    # --- EncoderDecoder: masks
    Misconception(
        "masks_swapped_in_forward",
        "EncoderDecoder",
        "Your forward hands the two masks on the wrong way round. Where both sequences are equally long nothing raises, "
        "and the decoder may look at its own future and not at all of the source. Mind the order in which `decode` "
        "takes them.",
        {FORWARD: FORWARD.replace("src_mask, tgt, tgt_mask", "tgt_mask, tgt, src_mask")},
    ),
    Misconception(
        "masks_swapped_in_decode",
        "EncoderDecoder",
        "Your decode hands the two masks to the decoder the wrong way round: the past is masked like the source, and the "
        "source like the past. A decoder takes the source's mask first.",
        {DECODE: DECODE.replace("src_mask, tgt_mask", "tgt_mask, src_mask")},
    ),
    Misconception(
        "source_encoded_with_the_targets_mask",
        "EncoderDecoder",
        "Your forward encodes the source under the target's mask. The encoder has the source's own: everything in it may be "
        "read at once, all but the padding.",
        {FORWARD: FORWARD.replace("self.encode(src, src_mask)", "self.encode(src, tgt_mask)")},
    ),
    Misconception(
        "encoder_without_mask",
        "EncoderDecoder",
        "Your encoder gets no mask, so real tokens attend to padding, and a sentence comes out differently in a batch with "
        "longer ones.",
        {ENCODE: ENCODE.replace(", src_mask", "")},
    ),
    Misconception(
        "source_attention_without_mask",
        "EncoderDecoder",
        "Your decoder looks at the source without its mask. The memory has vectors at padded positions too: the encoder "
        "does not remove them, it only does not read from them.",
        {DECODE: DECODE.replace("src_mask", "None")},
    ),
    Misconception(
        "own_past_without_mask",
        "EncoderDecoder",
        "Your decoder gets no mask for the target, so each position sees what it is to predict. In training the loss would "
        "fall fast, and decoding would be helpless.",
        {DECODE: DECODE.replace("tgt_mask", "None")},
    ),
    Misconception(
        "decode_makes_its_own_mask",
        "EncoderDecoder",
        "Your decode hides the future by a mask of its own, and does not use the one that it was given, in which padding "
        "is hidden as well. The model knows nothing of padding: whoever makes the batch makes the masks.",
        {DECODE: DECODE.replace("tgt_mask", "subsequent_mask(tgt.size(1)).to(tgt.device)")},
    ),
    Misconception(
        "masks_as_integers",
        "EncoderDecoder",
        "You turn the masks into numbers. They are boolean on their whole way: attention asks them what is *not* allowed, and `~` of an integer is another "
        "integer.",
        {
            ENCODE: ENCODE.replace("src_mask", "None if src_mask is None else src_mask.int()"),
            DECODE: DECODE.replace(
                "src_mask", "None if src_mask is None else src_mask.int()"
            ).replace("tgt_mask", "None if tgt_mask is None else tgt_mask.int()"),
        },
    ),
    Misconception(
        "masks_to_be_added",
        "EncoderDecoder",
        "You turn the masks into 0 and −∞, to be added to the scores. They are boolean on their whole way: attention itself knows how to hide a key.",
        {
            ENCODE: ENCODE.replace("src_mask", added("src_mask")),
            DECODE: DECODE.replace("src_mask", added("src_mask")).replace(
                "tgt_mask", added("tgt_mask")
            ),
        },
    ),
    # --- EncoderDecoder: what goes where
    Misconception(
        "source_embedded_as_target",
        "EncoderDecoder",
        "Your encode looks the source up in the target's table. Each language has its own; where there is only one, both "
        "names lead to it anyway.",
        {ENCODE: ENCODE.replace("src_embed", "tgt_embed")},
    ),
    Misconception(
        "target_embedded_as_source",
        "EncoderDecoder",
        "Your decode looks the target up in the source's table. Each language has its own; where there is only one, both "
        "names lead to it anyway.",
        {DECODE: DECODE.replace("tgt_embed", "src_embed")},
    ),
    Misconception(
        "one_embedding_kept",
        "EncoderDecoder",
        "You keep one of the two embeddings under both names. They are two parts; whether they share a table is decided "
        "by whoever makes them.",
        {"self.tgt_embed = tgt_embed": "self.tgt_embed = src_embed"},
    ),
    Misconception(
        "embedding_scaled_again",
        "EncoderDecoder",
        "You multiply what the embeddings give by √d_model. They have done so themselves, before the positions came to "
        "them; once more drowns everything that the layers add.",
        {
            ENCODE: ENCODE.replace(
                "self.src_embed(src)", "self.src_embed(src) * self.src_embed(src).size(-1) ** 0.5"
            ),
            DECODE: DECODE.replace(
                "self.tgt_embed(tgt)", "self.tgt_embed(tgt) * memory.size(-1) ** 0.5"
            ),
        },
    ),
    Misconception(
        "encoder_skipped",
        "EncoderDecoder",
        "Your encode returns the source's embeddings: the encoder is never called, and what the decoder looks at are "
        "words that know nothing of each other.",
        {ENCODE: "return self.src_embed(src)"},
    ),
    Misconception(
        "memory_cut_off",
        "EncoderDecoder",
        "Your memory is detached from what made it, so no gradient reaches the encoder and it never learns. In "
        "training the error flows from the target's words through the memory into the source's.",
        {ENCODE: ENCODE + ".detach()"},
    ),
    Misconception(
        "parts_in_a_list",
        "EncoderDecoder",
        "You keep a part inside a plain list. A module finds the parameters of parts that are attributes of their own; "
        "what lies in a list is not trained, saved, or moved to a GPU.",
        {
            "self.encoder = encoder": "self.encoder = [encoder]",
            ENCODE: ENCODE.replace("self.encoder(", "self.encoder[0]("),
        },
    ),
    # --- make_model: sizes and places
    Misconception(
        "as_in_the_annotated_transformer",
        "make_model",
        "This is the `make_model` of a well-known annotated Transformer. Here the number of layers is called `n`, and it takes `norm` and `tie` as well; "
        "and the embedding tables, which `Embeddings` has started well, are not drawn anew with the matrices.",
        source=annotated("N=6"),
    ),
    Misconception(
        "no_norm_and_no_tie",
        "make_model",
        "This is nearly the `make_model` of a well-known annotated Transformer. Here it takes `norm` and `tie` as well, `dropout` reaches the attentions "
        "too, and the embedding tables, which `Embeddings` has started well, are not drawn anew with the matrices.",
        source=annotated("n=6"),
    ),
    Misconception(
        "n_ignored",
        "make_model",
        "Neither of your stacks has n layers. Six is the paper's number, and only the default here.",
        {
            "Encoder(encoder_layer, n)": "Encoder(encoder_layer, 6)",
            "Decoder(decoder_layer, n)": "Decoder(decoder_layer, 6)",
        },
    ),
    Misconception(
        "six_layers_in_the_encoder",
        "make_model",
        "Your encoder does not have n layers. Both stacks have the same number.",
        {"Encoder(encoder_layer, n)": "Encoder(encoder_layer, 6)"},
    ),
    Misconception(
        "layers_shared",
        "make_model",
        "The layers of a stack are one and the same object, named n times: they share all weights, and n of them learn no more than one. Each layer "
        "has weights of its own.",
        {
            "    return model\n": "    for stack in (model.encoder, model.decoder):\n"
            "        stack.layers = nn.ModuleList([stack.layers[0]] * n)\n"
            "    return model\n"
        },
    ),
    Misconception(
        "stacks_share_their_parts",
        "make_model",
        "Encoder and decoder share attention or network: one object was made, and put into both. Each place needs one of its own; "
        "a copy per stack comes too late for what is shared inside the model.",
        {
            "    return model\n": "    for one, other in zip(model.encoder.layers, model.decoder.layers):\n"
            "        other.self_attn, other.feed_forward = one.self_attn, one.feed_forward\n"
            "    return model\n"
        },
    ),
    Misconception(
        "positions_before_the_embedding",
        "make_model",
        "You add positions before the tokens are looked up. Ids have no features to add to: first the vectors, then their places.",
        {
            EMBED: "nn.Sequential(PositionalEncoding(d_model, dropout), Embeddings(d_model, vocab))",
            TIE_TARGET: TIE_TARGET.replace("[0]", "[1]"),
            "model.src_embed[0].lut": "model.src_embed[1].lut",
        },
    ),
    Misconception(
        "heads_and_width_swapped",
        "make_model",
        "You give the attention its width for the number of heads, and the other way round. `MultiHeadedAttention` takes "
        "the heads first.",
        {ATTENTION: "return MultiHeadedAttention(d_model, h, dropout)"},
    ),
    Misconception(
        "heads_ignored",
        "make_model",
        "Your attentions do not have the number of heads that was asked for. Their matrices have the same shapes with any "
        "number, so nothing raises.",
        {ATTENTION: "return MultiHeadedAttention(1, d_model, dropout)"},
    ),
    Misconception(
        "widths_swapped",
        "make_model",
        "Your feed-forward networks go from d_ff to d_model and back. d_model is the width of the tokens' vectors, d_ff that "
        "of the hidden layer.",
        {NETWORK: "return PositionwiseFeedForward(d_ff, d_model, dropout)"},
    ),
    Misconception(
        "vocabularies_swapped",
        "make_model",
        "Your source embedding has the target's vocabulary, and the target embedding the source's.",
        {TABLES: "embed(tgt_vocab),\n        embed(src_vocab),"},
    ),
    Misconception(
        "source_vocabulary_twice",
        "make_model",
        "Your target embedding has the source's vocabulary. With vocabularies of one size nobody would notice.",
        {TABLES: TABLES.replace("tgt_vocab", "src_vocab")},
    ),
    Misconception(
        "generator_of_the_source",
        "make_model",
        "Your generator predicts source tokens: it has the source's vocabulary. What is to be predicted is the target.",
        {"Generator(d_model, tgt_vocab)": "Generator(d_model, src_vocab)"},
    ),
    Misconception(
        "six_layers_in_the_decoder",
        "make_model",
        "Your decoder does not have n layers. Both stacks have the same number.",
        {"Decoder(decoder_layer, n)": "Decoder(decoder_layer, 6)"},
    ),
    Misconception(
        "one_attention_for_both",
        "make_model",
        "Both attentions of a decoder layer are one and the same object, so they share their matrices; and a deep copy "
        "keeps it so, for what is one inside a layer stays one in its copy. Looking back and looking at the source "
        "are two things to learn.",
        {
            DECODER_PARTS: DECODER_PARTS.replace(
                "self_attention(), self_attention()", "*[self_attention()] * 2"
            )
        },
    ),
    Misconception(
        "one_table_always",
        "make_model",
        "Source and target share an embedding although nobody asked for it. They do so with `tie=True` only: two "
        "vocabularies have nothing in common but their numbers.",
        {
            "model = EncoderDecoder(": "source = embed(src_vocab)\n    model = EncoderDecoder(",
            TABLES: "source,\n        source,",
        },
    ),
    Misconception(
        "target_without_positions",
        "make_model",
        "Your target embedding adds no positions. The mask tells the decoder what came before, but not in which order.",
        {
            TABLES: TABLES.replace(
                "embed(tgt_vocab)", "nn.Sequential(Embeddings(d_model, tgt_vocab))"
            )
        },
    ),
    Misconception(
        "source_without_positions",
        "make_model",
        "Your source embedding adds no positions. To the encoder the source is then a bag of words (day 2).",
        {
            TABLES: TABLES.replace(
                "embed(src_vocab)", "nn.Sequential(Embeddings(d_model, src_vocab))"
            )
        },
    ),
    # --- make_model: norm
    Misconception(
        "norm_not_passed_on",
        "make_model",
        "You do not pass `norm` on: whatever is asked for, every layer is post-norm.",
        {
            ENCODER_LAYER: ENCODER_LAYER.replace(", norm", ""),
            DECODER_PARTS: DECODER_PARTS.replace(", norm", ""),
        },
    ),
    Misconception(
        "norm_not_passed_to_the_decoder",
        "make_model",
        "Your decoder's layers are post-norm whatever is asked for: `norm` reaches the encoder only.",
        {DECODER_PARTS: DECODER_PARTS.replace(", norm", "")},
    ),
    Misconception(
        "norm_not_passed_to_the_encoder",
        "make_model",
        "Your encoder's layers are post-norm whatever is asked for: `norm` reaches the decoder only.",
        {ENCODER_LAYER: ENCODER_LAYER.replace(", norm", "")},
    ),
    Misconception(
        "pre_norm_by_default",
        "make_model",
        "Your model is pre-norm where nothing is said of it. Most later models are; the paper's is post-norm.",
        {'norm: str = "post"': 'norm: str = "pre"'},
    ),
    # --- make_model: dropout
    Misconception(
        "dropout_not_passed_on",
        "make_model",
        "You do not pass `dropout` on to attention and feed-forward network, so they keep a probability of their own: 0.1. "
        "With dropout=0 the model still draws at random in training.",
        {
            ATTENTION: "return MultiHeadedAttention(h, d_model)",
            NETWORK: "return PositionwiseFeedForward(d_model, d_ff)",
        },
    ),
    Misconception(
        "dropout_not_passed_to_attention",
        "make_model",
        "Your attentions do not get `dropout`, and keep a probability of their own for their weights. With dropout=0 the model "
        "still draws at random in training.",
        {ATTENTION: "return MultiHeadedAttention(h, d_model)"},
    ),
    Misconception(
        "dropout_not_passed_to_the_network",
        "make_model",
        "Your feed-forward networks do not get `dropout`, and keep a probability of their own. With dropout=0 the model "
        "still draws at random in training.",
        {NETWORK: "return PositionwiseFeedForward(d_model, d_ff)"},
    ),
    Misconception(
        "no_dropout_in_attention",
        "make_model",
        "Nothing is ever dropped from your attention weights. It is one of the places where this model drops with the "
        "probability that is asked for.",
        {ATTENTION: "return MultiHeadedAttention(h, d_model, 0.0)"},
    ),
    Misconception(
        "no_dropout_on_the_embeddings",
        "make_model",
        "Nothing is ever dropped from the sums of embeddings and positions. The paper drops there too, in both stacks "
        "(§5.4).",
        {EMBED: EMBED.replace("dropout", "0.0")},
    ),
    Misconception(
        "dropout_of_its_own_on_the_embeddings",
        "make_model",
        "The sums of embeddings and positions are dropped with a fixed probability, not with the one that is asked for. "
        "With dropout=0 the model still draws at random in training.",
        {EMBED: EMBED.replace("dropout", "0.1")},
    ),
    Misconception(
        "no_dropout_at_the_shortcuts",
        "make_model",
        "Your layers are made without `dropout`: what attention and network add to the shortcut is never dropped. That is "
        "the dropout that the paper speaks of first (§5.4).",
        {
            ENCODER_LAYER: ENCODER_LAYER.replace("dropout", "0.0"),
            DECODER_PARTS: DECODER_PARTS.replace("dropout", "0.0"),
        },
    ),
    Misconception(
        "no_dropout_by_default",
        "make_model",
        "Where nothing is said of it your model drops nothing. The paper's base model has P_drop = 0.1 (table 3).",
        {"dropout: float = 0.1": "dropout: float = 0.0"},
    ),
    # --- make_model: the start
    Misconception(
        "not_initialised",
        "make_model",
        "You leave the matrices as `nn.Linear` starts them, uniform within ±1/√inputs: with a third of the variance that "
        "a square matrix has under Xavier.",
        {XAVIER: "pass"},
    ),
    Misconception(
        "xavier_normal",
        "make_model",
        "You draw from Xavier's normal distribution. It has the same variance, but no bound; here it is the uniform "
        "one, as in the paper of Glorot and Bengio.",
        {XAVIER: XAVIER.replace("uniform", "normal")},
    ),
    Misconception(
        "wider_than_xavier",
        "make_model",
        "Your matrices start uniform, but wider than Xavier's bound: by a gain, or by He's (Kaiming's) rule, which counts a "
        "matrix's inputs alone. Both are meant for a ReLU that comes after; here the bound is √(6 / (inputs + outputs)) for "
        "every matrix.",
        {XAVIER: "nn.init.xavier_uniform_(module.weight, gain=math.sqrt(2))"},
    ),
    Misconception(
        "small_normal",
        "make_model",
        "You draw every matrix from a narrow normal distribution of fixed deviation, as BERT and GPT-2 do. Here "
        "the spread depends on the matrix's shape: √(6 / (inputs + outputs)).",
        {XAVIER: "nn.init.normal_(module.weight, std=0.02)"},
    ),
    Misconception(
        "xavier_on_the_tables",
        "make_model",
        "Your embedding tables are drawn anew, and come out too narrow: so it goes where everything that has two axes is drawn "
        "as a weight matrix. A table is no layer: nothing is summed over the vocabulary, so its size says nothing about the "
        "scale. `Embeddings` has started it well.",
        {
            EVERY_MODULE: "for module in model.modules():\n"
            "        if isinstance(module, nn.Linear | nn.Embedding):"
        },
    ),
    Misconception(
        "only_the_encoder_initialised",
        "make_model",
        "Only the encoder's matrices are drawn anew. The decoder's, and the generator's, wait for it as well.",
        {EVERY_MODULE: EVERY_MODULE.replace("model.modules()", "model.encoder.modules()")},
    ),
    Misconception(
        "generator_not_initialised",
        "make_model",
        "The matrices of the two stacks are drawn anew, and the generator's is forgotten. It is a weight matrix like the "
        "others.",
        {
            EVERY_MODULE: EVERY_MODULE.replace(
                "model.modules()", "[*model.encoder.modules(), *model.decoder.modules()]"
            )
        },
    ),
    Misconception(
        "clones_start_equal",
        "make_model",
        "All layers of a stack start with equal matrices, as if they had been drawn before the layers were copied. Draw when "
        "the model is put together, so that each layer begins as one of its own.",
        {
            "    return model\n": "    for stack in (model.encoder, model.decoder):\n"
            "        for layer in stack.layers[1:]:\n"
            "            layer.load_state_dict(stack.layers[0].state_dict())\n"
            "    return model\n"
        },
    ),
    # --- make_model: tying
    Misconception(
        "not_tied",
        "make_model",
        "Your model has three matrices whatever `tie` says.",
        {TIE_TARGET: "pass", TIE_OUTPUT: "pass"},
    ),
    Misconception(
        "tied_by_memory_only",
        "make_model",
        "You tie the matrices' memory and not the Parameters: there are still three of them, with three gradients, and "
        "an optimiser counts and moves that memory three times. One move to another dtype, and they are strangers. "
        "One Parameter has to stand in three places.",
        {
            TIE_TARGET: TIE_TARGET.replace("lut.weight =", "lut.weight.data =").replace(
                "= table", "= table.data"
            ),
            TIE_OUTPUT: TIE_OUTPUT.replace("proj.weight =", "proj.weight.data =").replace(
                "= table", "= table.data"
            ),
        },
    ),
    Misconception(
        "tied_by_copying",
        "make_model",
        "You copy the numbers from one matrix to the others. They are equal until the first step of training, which "
        "moves each its own way. One Parameter has to stand in three places.",
        {
            TIE_TARGET: "nn.init.zeros_(model.tgt_embed[0].lut.weight).data += table.data",
            TIE_OUTPUT: "nn.init.zeros_(model.generator.proj.weight).data += table.data",
        },
    ),
    Misconception(
        "output_tied_by_copying",
        "make_model",
        "Your output projection gets a copy of the table: a Parameter of its own, equal until the first step of training moves the two apart. One "
        "Parameter has to stand in three places.",
        {TIE_OUTPUT: "model.generator.proj.weight = nn.Parameter(table.detach().clone())"},
    ),
    Misconception(
        "output_not_tied",
        "make_model",
        "You tie the two embeddings and leave the output projection on its own. The paper shares one matrix between "
        "all three (§3.4).",
        {TIE_OUTPUT: "pass"},
    ),
    Misconception(
        "source_not_tied",
        "make_model",
        "You tie the target's embedding and the output projection, and leave the source's embedding on its own. The paper "
        "shares one matrix between all three (§3.4); hence the joint vocabulary.",
        {"table = model.src_embed[0].lut.weight": "table = model.tgt_embed[0].lut.weight"},
    ),
    Misconception(
        "target_not_tied",
        "make_model",
        "You tie the source's embedding and the output projection, and leave the target's embedding on its own. The paper "
        "shares one matrix between all three (§3.4).",
        {TIE_TARGET: "pass"},
    ),
    Misconception(
        "tied_matrix_starts_as_a_projection",
        "make_model",
        "Your one matrix starts too narrow, as a projection would: the projection's was handed to the embeddings, or the "
        "matrices were drawn when they were tied already, and the projection is one of them. It is to start as an "
        "embedding, or the tokens enter more softly than the positions that are added to them.",
        {TIE_OUTPUT: TIE_OUTPUT + "\n        nn.init.xavier_uniform_(table)"},
    ),
    Misconception(
        "tied_without_bias",
        "make_model",
        "In your tied model the generator has lost its bias. Only the matrices are shared; an embedding has no bias to "
        "share, and how frequent a token is has to be written somewhere.",
        {
            TIE_OUTPUT: TIE_OUTPUT
            + '\n        model.generator.proj.register_parameter("bias", None)'
        },
    ),
    Misconception(
        "tied_by_default",
        "make_model",
        "Your model is tied where nothing is said of it. The paper's was, but that needs a joint vocabulary; here tying is "
        "asked for.",
        {"tie: bool = False": "tie: bool = True"},
    ),
]
