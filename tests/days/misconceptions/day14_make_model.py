"""Day 14: what goes wrong where the parts become a model."""

from course.judging.misconceptions import of


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
    *of(
        "Generator",
        {
            # --- Generator
            "probabilities": (
                "You return probabilities instead of log-probabilities. A loss is a sum of logarithms, and as floating-point numbers the smallest "
                "probabilities are rounded to 0.",
                {"_.log_softmax": "_.softmax"},
            ),
            "log_of_a_softmax": (
                "You take the softmax first and its logarithm afterwards. If a logit is 104 or more below the largest, its probability is 0 in float32, and "
                "the logarithm is −∞. Compute both in one step (day 1).",
                {"_.log_softmax(dim=-1)": "_.softmax(dim=-1).log()"},
            ),
            "scores_as_they_are": (
                "You return the logits of the linear layer. Their exponentials do not sum to 1: the log-softmax is missing.",
                {"_.log_softmax(dim=-1)": "_"},
            ),
            "softmax_without_an_axis": (
                "You do not specify the axis of the softmax. PyTorch then guesses it from the number of axes. With three axes it uses the batch axis, so the "
                "probabilities sum to 1 over the sentences, not over the tokens.",
                {"_.log_softmax(dim=-1)": "F.log_softmax(_)"},
            ),
            "softmax_over_time": (
                "Your softmax runs along time, the second-to-last axis. The probabilities should sum to 1 over the vocabulary at every position.",
                {"dim=-1": "dim=-2"},
            ),
            "generator_without_bias": (
                "Your projection has no bias. Here it has a bias, even if its matrix is tied to the embeddings: the bias can learn how frequent each token is.",
                {"nn.Linear(d_model, vocab)": "nn.Linear(d_model, vocab, bias=False)"},
            ),
            "scores_scaled_down": (
                "You divide the states by √d_model before the projection. Some later models, such as T5, do so if the matrix is tied. Here only the "
                "embeddings are scaled.",
                {"self.proj(x)": "self.proj(x / math.sqrt(x.size(-1)))"},
            ),
            "scores_scaled_up": (
                "You multiply the states by √d_model before the projection. That factor belongs to the embeddings (§3.4).",
                {"self.proj(x)": "self.proj(x * math.sqrt(x.size(-1)))"},
            ),
            "only_the_last_position": (
                "You keep only the last position. Decoding needs no other position, but training has a loss at every position. The caller selects the last "
                "position before it calls the generator.",
                {"self.proj(x)": "self.proj(x[..., -1:, :])"},
            ),
            "log_probs_in_float32": (
                "Your log-probabilities are always float32. You may compute in a wider dtype, but the result should have the dtype of the states.",
                {"_.log_softmax(dim=-1)": "_.log_softmax(dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))"},
            ),
        },
    ),
    *of(
        "EncoderDecoder",
        {
            # --- EncoderDecoder: what forward returns
            "generator_in_forward": (
                "Your `forward` calls the generator. It should return the decoder's states, of width d_model. The caller applies `model.generator`, because "
                "decoding needs it only at the last position, and it produces V numbers per position.",
                {"forward(): return _": "return self.generator(_)"},
            ),
            "generator_in_decode": (
                "Your `decode` calls the generator. It should return states, of width d_model. The caller applies `model.generator` to as many states as it "
                "needs.",
                {"decode(): return _": "return self.generator(_)"},
            ),
            # --- EncoderDecoder: masks
            "masks_swapped_in_forward": (
                "Your `forward` passes the two masks in the wrong order. If both sequences have the same length, no error is raised, and the decoder attends "
                "to its own future. Check the order of the arguments of `decode`.",
                {"self.decode(_, src_mask, tgt, tgt_mask)": "self.decode(_, tgt_mask, tgt, src_mask)"},
            ),
            "masks_swapped_in_decode": (
                "Your `decode` passes the two masks to the decoder in the wrong order: the target gets the source's mask, and the source gets the target's. A "
                "decoder takes the source's mask first.",
                {"self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, tgt_mask, src_mask)"},
            ),
            "source_encoded_with_the_targets_mask": (
                "Your `forward` encodes the source with the target's mask. The encoder uses the source's own mask, which hides only padding.",
                {"self.encode(src, src_mask)": "self.encode(src, tgt_mask)"},
            ),
            "encoder_without_mask": (
                "Your encoder gets no mask, so real tokens attend to padding. The same sentence then gets a different result when it is padded in a batch "
                "with longer sentences.",
                {"self.encoder(_, src_mask)": "self.encoder(_)"},
            ),
            "source_attention_without_mask": (
                "Your decoder attends to the source without its mask. The memory has vectors at padded positions too, because the encoder does not remove them.",
                {"decode(): src_mask": "None"},
            ),
            "own_past_without_mask": (
                "Your decoder gets no mask for the target, so each position attends to the token to predict. In training the loss would fall fast, but "
                "decoding would fail.",
                {"decode(): tgt_mask": "None"},
            ),
            "decode_makes_its_own_mask": (
                "Your `decode` creates its own causal mask and ignores `tgt_mask`, which also hides padding. The model does not know the id of padding, so "
                "the code that makes the batch makes the masks.",
                {"decode(): tgt_mask": "subsequent_mask(tgt.size(1)).to(tgt.device)"},
            ),
            "masks_as_integers": (
                "You convert the masks to integers. Masks should stay boolean: attention inverts them, and `~` of an integer is a different integer.",
                {
                    "self.encoder(_, src_mask)": "self.encoder(_, None if src_mask is None else src_mask.int())",
                    "self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, None if src_mask is None else src_mask.int(), None if tgt_mask is None else tgt_mask.int())",
                },
            ),
            "masks_to_be_added": (
                "You convert the masks to 0 and −∞, to be added to the scores. Masks should stay boolean: attention itself hides the keys.",
                {
                    "self.encoder(_, src_mask)": "self.encoder(_, None if src_mask is None else torch.zeros(src_mask.shape, device=src_mask.device).masked_fill(~src_mask, -math.inf))",
                    "self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, None if src_mask is None else torch.zeros(src_mask.shape, device=src_mask.device).masked_fill(~src_mask, -math.inf), None if tgt_mask is None else torch.zeros(tgt_mask.shape, device=tgt_mask.device).masked_fill(~tgt_mask, -math.inf))",
                },
            ),
            # --- EncoderDecoder: what goes where
            "source_embedded_as_target": (
                "Your `encode` uses the target's embeddings for the source. Source and target each have their own embeddings. If these are shared, both names "
                "refer to the same matrix anyway.",
                {"self.src_embed": "self.tgt_embed"},
            ),
            "target_embedded_as_source": (
                "Your `decode` uses the source's embeddings for the target. Source and target each have their own embeddings. If these are shared, both names "
                "refer to the same matrix anyway.",
                {"self.tgt_embed": "self.src_embed"},
            ),
            "one_embedding_kept": (
                "You store one of the two embeddings under both names. The model has two embeddings; the caller decides whether they share a matrix.",
                {"self.tgt_embed = tgt_embed": "self.tgt_embed = src_embed"},
            ),
            "embedding_scaled_again": (
                "You multiply the output of the embeddings by √d_model. The embeddings already do this, before the positions are added.",
                {
                    "self.src_embed(src)": "self.src_embed(src) * self.src_embed(src).size(-1) ** 0.5",
                    "self.tgt_embed(tgt)": "self.tgt_embed(tgt) * memory.size(-1) ** 0.5",
                },
            ),
            "encoder_skipped": (
                "Your `encode` returns the source's embeddings. The encoder is never called, so the memory contains no context.",
                {"self.encoder(_, src_mask)": "_"},
            ),
            "memory_cut_off": (
                "Your memory is detached, so no gradient reaches the encoder, and the encoder never learns.",
                {"encode(): return _": "return _.detach()"},
            ),
            "parts_in_a_list": (
                "You store a part inside a plain list. PyTorch finds modules only if they are attributes: a module in a plain list is not trained, saved, or "
                "moved to a GPU.",
                {"self.encoder = encoder": "self.encoder = [encoder]", "self.encoder": "self.encoder[0]"},
            ),
        },
    ),
    *of(
        "make_model",
        {
            # --- make_model: sizes and places
            "as_in_the_annotated_transformer": (
                "This is the `make_model` of *The Annotated Transformer*. Here the number of layers is called `n`, there are arguments `norm` and `tie`, and the "
                "embedding matrices keep the initialization of `Embeddings`.",
                annotated("N=6"),
            ),
            "n_ignored": (
                "Neither of your stacks has n layers. Six is the paper's number, and here only the default.",
                {"Encoder(_, n)": "Encoder(_, 6)", "Decoder(_, n)": "Decoder(_, 6)"},
            ),
            "layers_shared": (
                "The layers of a stack are the same object: they share all weights, so n layers have no more parameters than one. Each layer should have its "
                "own weights.",
                {"return model": "for stack in (model.encoder, model.decoder):\n    stack.layers = nn.ModuleList([stack.layers[0]] * n)\nreturn model"},
            ),
            "heads_and_width_swapped": (
                "You pass the width as the number of heads, and the number of heads as the width. `MultiHeadedAttention` takes the number of heads first.",
                {"MultiHeadedAttention(h, d_model, dropout)": "MultiHeadedAttention(d_model, h, dropout)"},
            ),
            "heads_ignored": (
                "Your attention modules do not have the requested number of heads. Their matrices have the same shapes for any number of heads, so no error "
                "is raised.",
                {"h": "1"},
            ),
            "widths_swapped": (
                "Your feed-forward networks go from d_ff to d_model and back. d_model is the width of the token vectors, and d_ff that of the hidden layer.",
                {"ffn(): return ...": "return PositionwiseFeedForward(d_ff, d_model, dropout)"},
            ),
            "vocabularies_swapped": (
                "Your source embedding has the target's vocabulary, and your target embedding has the source's.",
                {
                    "model = ...": "model = EncoderDecoder(Encoder(encoder_layer, n), Decoder(decoder_layer, n), embed(tgt_vocab), embed(src_vocab), Generator(d_model, tgt_vocab))"
                },
            ),
            "generator_of_the_source": (
                "Your generator has the source's vocabulary, but it predicts target tokens.",
                {"Generator(d_model, tgt_vocab)": "Generator(d_model, src_vocab)"},
            ),
            "six_layers_in_the_decoder": (
                "Your decoder does not have n layers. Both stacks have the same number.",
                {"Decoder(_, n)": "Decoder(_, 6)"},
            ),
            "one_attention_for_both": (
                "Both attentions of your decoder layer are the same object, so they share their matrices. A deep copy keeps what is shared inside a layer. "
                "Self-attention and cross-attention need separate weights.",
                {"decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, *[mha()] * 2, ffn(), dropout, norm)"},
            ),
            "one_table_always": (
                "Source and target always share an embedding matrix. They should share it only on request: in general, two vocabularies have only their ids "
                "in common.",
                {"embed(tgt_vocab)": "source", "embed(src_vocab)": "source", "decoder_layer = _": "decoder_layer = _\nsource = embed(src_vocab)"},
            ),
            "target_without_positions": (
                "Your target embedding adds no positions. The causal mask determines which tokens are earlier, but not their order.",
                {"embed(tgt_vocab)": "nn.Sequential(Embeddings(d_model, tgt_vocab))"},
            ),
            # --- make_model: norm
            "norm_not_passed_on": (
                "You do not pass `norm` on, so every layer is post-norm.",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(d_model, mha(), ffn(), dropout)",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, mha(), mha(), ffn(), dropout)",
                },
            ),
            "norm_not_passed_to_the_decoder": (
                "Your decoder's layers are always post-norm: `norm` reaches the encoder only.",
                {"decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, mha(), mha(), ffn(), dropout)"},
            ),
            "pre_norm_by_default": (
                "Your model is pre-norm by default. Most later models are pre-norm, but the paper's model, and the default here, is post-norm.",
                {"norm='post'": "norm='pre'"},
            ),
            # --- make_model: dropout
            "dropout_not_passed_on": (
                "You do not pass `dropout` to attention and the feed-forward networks, so they keep their default of 0.1. Even with dropout=0, your model is "
                "random in training mode.",
                {"mha(): dropout": "", "ffn(): dropout": ""},
            ),
            "dropout_not_passed_to_attention": (
                "Your attention modules do not get `dropout`, so they keep their default for the attention weights. Even with dropout=0, your model is random "
                "in training mode.",
                {"mha(): dropout": ""},
            ),
            "no_dropout_in_attention": (
                "Dropout is never applied to your attention weights. This model applies it there, with the requested probability.",
                {"mha(): dropout": "0.0"},
            ),
            "no_dropout_on_the_embeddings": (
                "Dropout is never applied to the sums of embeddings and positions. The paper applies dropout there too, in both stacks (§5.4).",
                {"embed(): dropout": "0.0"},
            ),
            "no_dropout_at_the_shortcuts": (
                "Your layers are created without `dropout`, so dropout is never applied to the outputs of the sublayers. That is the dropout that the paper "
                "describes first (§5.4).",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(d_model, mha(), ffn(), 0.0, norm)",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, mha(), mha(), ffn(), 0.0, norm)",
                },
            ),
            "no_dropout_by_default": (
                "Your default is no dropout. The paper's base model has P_drop = 0.1 (table 3).",
                {"dropout=0.1": "dropout=0.0"},
            ),
            # --- make_model: the start
            "not_initialised": (
                "You keep the initialization of `nn.Linear`, uniform within ±1/√inputs: for a square matrix, its variance is a third of Xavier's.",
                {"nn.init.xavier_uniform_(module.weight)": ""},
            ),
            "xavier_normal": (
                "You use Xavier's normal distribution. It has the same variance but no bound. Here the distribution is uniform, as in the paper by Glorot and "
                "Bengio.",
                {"nn.init.xavier_uniform_": "nn.init.xavier_normal_"},
            ),
            "small_normal": (
                "You initialize every matrix from a normal distribution with a small fixed standard deviation, as BERT and GPT-2 do. Here the bound depends on the "
                "shape: √(6 / (inputs + outputs)).",
                {"nn.init.xavier_uniform_(_)": "nn.init.normal_(_, std=0.02)"},
            ),
            "xavier_on_the_tables": (
                "Your embedding matrices are initialized again, with a scale that is too small. This happens if every parameter with two axes is treated as a "
                "weight matrix. A lookup does not sum over the vocabulary, so its scale should not depend on the vocabulary's size. `Embeddings` has already "
                "initialized the matrix.",
                {"nn.Linear": "nn.Linear | nn.Embedding"},
            ),
            "generator_not_initialised": (
                "You initialize the matrices of the two stacks, but not the generator's matrix, which is a weight matrix like the others.",
                {"model.modules()": "[*model.encoder.modules(), *model.decoder.modules()]"},
            ),
            "clones_start_equal": (
                "All layers of a stack start with equal matrices, as if they had been initialized before the layers were copied. Initialize after the model "
                "is assembled, so that the layers start out different.",
                {
                    "return model": "for stack in (model.encoder, model.decoder):\n"
                    "    for layer in stack.layers[1:]:\n"
                    "        layer.load_state_dict(stack.layers[0].state_dict())\n"
                    "return model"
                },
            ),
            # --- make_model: tying
            "not_tied": (
                "Your model has three separate matrices, whatever `tie` is.",
                {"model.tgt_embed[0].lut.weight = shared": "pass", "model.generator.proj.weight = shared": "pass"},
            ),
            "tied_by_copying": (
                "You copy the entries of one matrix to the others. The three matrices are equal only until the first training step, which updates them "
                "separately. The three modules should share one Parameter.",
                {
                    "_.weight = shared\nmodel.generator.proj.weight = shared": "nn.init.zeros_(_.weight).data += shared.data\n"
                    "nn.init.zeros_(model.generator.proj.weight).data += shared.data"
                },
            ),
            "output_not_tied": (
                "You tie the two embeddings but not the output projection. The paper shares one matrix between all three (§3.4).",
                {"model.generator.proj.weight = shared": "pass"},
            ),
            "source_not_tied": (
                "You tie the target's embedding and the output projection, but not the source's embedding. The paper shares one matrix between all three "
                "(§3.4), which is possible because source and target have one joint vocabulary (§5.1).",
                {"model.src_embed": "model.tgt_embed"},
            ),
            "tied_matrix_starts_as_a_projection": (
                "Your shared matrix is initialized like a projection, with a scale that is too small: either the embeddings got the projection's matrix, or "
                "the projection was initialized after tying. Initialize it as an embedding. Otherwise the token embeddings start out smaller than the "
                "positional encodings.",
                {"model.generator.proj.weight = shared": "model.generator.proj.weight = shared\nnn.init.xavier_uniform_(shared)"},
            ),
            "tied_without_bias": (
                "In your tied model, the generator has no bias. Only the matrices are shared. The bias can learn how frequent each token is.",
                {"model.generator.proj.weight = shared": "model.generator.proj.weight = shared\nmodel.generator.proj.register_parameter('bias', None)"},
            ),
            "tied_by_default": (
                "Your model is tied by default. The paper's model is tied, but that needs a joint vocabulary. Here a model is tied only on request.",
                {"tie=False": "tie=True"},
            ),
        },
    ),
]
