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
                "You return probabilities. What is asked for are their logarithms: a loss adds logarithms up, and the smallest probabilities do not survive as "
                "floating-point numbers.",
                {"_.log_softmax": "_.softmax"},
            ),
            "log_of_a_softmax_with_a_floor": (
                "You take the logarithm after the softmax, and add a small number so that it never meets a 0. Then no token can be unlikelier than that number, "
                "and a token that is far off gets no gradient any more. The logarithm of a softmax has a form of its own, in which nothing vanishes (day 1).",
                {"_.log_softmax(dim=-1)": "(_.softmax(dim=-1) + 1e-9).log()"},
            ),
            "log_of_a_softmax": (
                "You take the softmax first and its logarithm after. Where one score is about a hundred above another, the other's probability is 0 in float32, "
                "and its logarithm −∞. Both steps in one avoid that (day 1).",
                {"_.log_softmax(dim=-1)": "_.softmax(dim=-1).log()"},
            ),
            "maximum_not_subtracted": (
                "You subtract the logarithm of the sum of the exponentials, and take the exponentials of the scores as they are: beyond 88 they overflow in "
                "float32 and all the log-probabilities become −∞.",
                {"return ...": "scores = self.proj(x)\nreturn scores - scores.exp().sum(dim=-1, keepdim=True).log()"},
            ),
            "scores_as_they_are": (
                "You return the scores of the linear layer. Their exponentials do not sum to 1: what is missing is the softmax, in its logarithmic form.",
                {"_.log_softmax(dim=-1)": "_"},
            ),
            "softmax_without_an_axis": (
                "You do not say along which axis the softmax runs. torch then guesses from the number of axes, and with three of them it takes the batch: the "
                "sentences compete, not the tokens.",
                {"_.log_softmax(dim=-1)": "F.log_softmax(_)"},
            ),
            "softmax_over_axis_1": (
                "Your softmax runs along axis 1. That is the vocabulary for one state of each sequence; for whole sequences it is time, so that the positions "
                "compete. The vocabulary is always the last axis.",
                {"dim=-1": "dim=1"},
            ),
            "softmax_over_time": (
                "Your softmax runs along the last axis but one, which is time: the positions compete for each token. At every position it is the tokens that "
                "compete.",
                {"dim=-1": "dim=-2"},
            ),
            "generator_without_bias": (
                "Your projection has no bias. It has one here, also where its matrix is tied to the embeddings: it learns how frequent each token is.",
                {"nn.Linear(d_model, vocab)": "nn.Linear(d_model, vocab, bias=False)"},
            ),
            "scores_scaled_down": (
                "You divide the states by √d_model before the projection. Some later models do so where the matrix is tied (T5); this one does not: it is the "
                "embeddings that are scaled, on their way in.",
                {"self.proj(x)": "self.proj(x / math.sqrt(x.size(-1)))"},
            ),
            "scores_scaled_up": (
                "You multiply the states by √d_model before the projection. That factor belongs to the embeddings, on their way in (§3.4).",
                {"self.proj(x)": "self.proj(x * math.sqrt(x.size(-1)))"},
            ),
            "only_the_last_position": (
                "You keep only the last position. Decoding needs no other, but training has a loss at every one; whoever decodes picks the last position before "
                "calling the generator.",
                {"self.proj(x)": "self.proj(x[..., -1:, :])"},
            ),
            "log_probs_in_float32": (
                "Your log-probabilities are float32 whatever came in. Compute as wide as you like; the result has the dtype of the states.",
                {"_.log_softmax(dim=-1)": "_.log_softmax(dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))"},
            ),
        },
    ),
    *of(
        "EncoderDecoder",
        {
            # --- EncoderDecoder: what forward returns
            "generator_in_forward": (
                "Your forward ends in the generator. It returns the decoder's states, d_model wide; the caller applies `model.generator`, because decoding wants "
                "it for the last position alone, and V numbers a position are a lot.",
                {"forward(): return _": "return self.generator(_)"},
            ),
            "generator_in_decode": (
                "Your decode ends in the generator. It returns states, d_model wide; the caller applies `model.generator` to as many of them as it needs.",
                {"decode(): return _": "return self.generator(_)"},
            ),
            # --- EncoderDecoder: masks
            "masks_swapped_in_forward": (
                "Your forward hands the two masks on the wrong way round. Where both sequences are equally long nothing raises, and the decoder may look at its "
                "own future and not at all of the source. Mind the order in which `decode` takes them.",
                {"self.decode(_, src_mask, tgt, tgt_mask)": "self.decode(_, tgt_mask, tgt, src_mask)"},
            ),
            "masks_swapped_in_decode": (
                "Your decode hands the two masks to the decoder the wrong way round: the past is masked like the source, and the source like the past. A decoder "
                "takes the source's mask first.",
                {"self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, tgt_mask, src_mask)"},
            ),
            "source_encoded_with_the_targets_mask": (
                "Your forward encodes the source under the target's mask. The encoder has the source's own: everything in it may be read at once, all but the "
                "padding.",
                {"self.encode(src, src_mask)": "self.encode(src, tgt_mask)"},
            ),
            "encoder_without_mask": (
                "Your encoder gets no mask, so real tokens attend to padding, and a sentence comes out differently in a batch with longer ones.",
                {"self.encoder(_, src_mask)": "self.encoder(_)"},
            ),
            "source_attention_without_mask": (
                "Your decoder looks at the source without its mask. The memory has vectors at padded positions too: the encoder does not remove them, it only does "
                "not read from them.",
                {"decode(): src_mask": "None"},
            ),
            "own_past_without_mask": (
                "Your decoder gets no mask for the target, so each position sees what it is to predict. In training the loss would fall fast, and decoding would "
                "be helpless.",
                {"decode(): tgt_mask": "None"},
            ),
            "decode_makes_its_own_mask": (
                "Your decode hides the future by a mask of its own, and does not use the one that it was given, in which padding is hidden as well. The model "
                "knows nothing of padding: whoever makes the batch makes the masks.",
                {"decode(): tgt_mask": "subsequent_mask(tgt.size(1)).to(tgt.device)"},
            ),
            "masks_as_integers": (
                "You turn the masks into numbers. They are boolean on their whole way: attention asks them what is *not* allowed, and `~` of an integer is another "
                "integer.",
                {
                    "self.encoder(_, src_mask)": "self.encoder(_, None if src_mask is None else src_mask.int())",
                    "self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, None if src_mask is None else src_mask.int(), None if tgt_mask is None else tgt_mask.int())",
                },
            ),
            "masks_to_be_added": (
                "You turn the masks into 0 and −∞, to be added to the scores. They are boolean on their whole way: attention itself knows how to hide a key.",
                {
                    "self.encoder(_, src_mask)": "self.encoder(_, None if src_mask is None else torch.zeros(src_mask.shape, device=src_mask.device).masked_fill(~src_mask, -math.inf))",
                    "self.decoder(_, memory, src_mask, tgt_mask)": "self.decoder(_, memory, None if src_mask is None else torch.zeros(src_mask.shape, device=src_mask.device).masked_fill(~src_mask, -math.inf), None if tgt_mask is None else torch.zeros(tgt_mask.shape, device=tgt_mask.device).masked_fill(~tgt_mask, -math.inf))",
                },
            ),
            # --- EncoderDecoder: what goes where
            "source_embedded_as_target": (
                "Your encode looks the source up in the target's table. Each language has its own; where there is only one, both names lead to it anyway.",
                {"self.src_embed": "self.tgt_embed"},
            ),
            "target_embedded_as_source": (
                "Your decode looks the target up in the source's table. Each language has its own; where there is only one, both names lead to it anyway.",
                {"self.tgt_embed": "self.src_embed"},
            ),
            "one_embedding_kept": (
                "You keep one of the two embeddings under both names. They are two parts; whether they share a table is decided by whoever makes them.",
                {"self.tgt_embed = tgt_embed": "self.tgt_embed = src_embed"},
            ),
            "embedding_scaled_again": (
                "You multiply what the embeddings give by √d_model. They have done so themselves, before the positions came to them; once more drowns everything "
                "that the layers add.",
                {
                    "self.src_embed(src)": "self.src_embed(src) * self.src_embed(src).size(-1) ** 0.5",
                    "self.tgt_embed(tgt)": "self.tgt_embed(tgt) * memory.size(-1) ** 0.5",
                },
            ),
            "encoder_skipped": (
                "Your encode returns the source's embeddings: the encoder is never called, and what the decoder looks at are words that know nothing of each other.",
                {"self.encoder(_, src_mask)": "_"},
            ),
            "memory_cut_off": (
                "Your memory is detached from what made it, so no gradient reaches the encoder and it never learns. In training the error flows from the target's "
                "words through the memory into the source's.",
                {"encode(): return _": "return _.detach()"},
            ),
            "parts_in_a_list": (
                "You keep a part inside a plain list. A module finds the parameters of parts that are attributes of their own; what lies in a list is not trained, "
                "saved, or moved to a GPU.",
                {"self.encoder = encoder": "self.encoder = [encoder]", "self.encoder": "self.encoder[0]"},
            ),
        },
    ),
    *of(
        "make_model",
        {
            # --- make_model: sizes and places
            "as_in_the_annotated_transformer": (
                "This is the `make_model` of a well-known annotated Transformer. Here the number of layers is called `n`, and it takes `norm` and `tie` as well; "
                "and the embedding tables, which `Embeddings` has started well, are not drawn anew with the matrices.",
                annotated("N=6"),
            ),
            "no_norm_and_no_tie": (
                "This is nearly the `make_model` of a well-known annotated Transformer. Here it takes `norm` and `tie` as well, `dropout` reaches the attentions "
                "too, and the embedding tables, which `Embeddings` has started well, are not drawn anew with the matrices.",
                annotated("n=6"),
            ),
            "n_ignored": (
                "Neither of your stacks has n layers. Six is the paper's number, and only the default here.",
                {"Encoder(_, n)": "Encoder(_, 6)", "Decoder(_, n)": "Decoder(_, 6)"},
            ),
            "six_layers_in_the_encoder": (
                "Your encoder does not have n layers. Both stacks have the same number.",
                {"Encoder(_, n)": "Encoder(_, 6)"},
            ),
            "layers_shared": (
                "The layers of a stack are one and the same object, named n times: they share all weights, and n of them learn no more than one. Each layer has "
                "weights of its own.",
                {"return model": "for stack in (model.encoder, model.decoder):\n    stack.layers = nn.ModuleList([stack.layers[0]] * n)\nreturn model"},
            ),
            "stacks_share_their_parts": (
                "Encoder and decoder share attention or network: one object was made, and put into both. Each place needs one of its own; a copy per stack comes "
                "too late for what is shared inside the model.",
                {
                    "return model": "for one, other in zip(model.encoder.layers, model.decoder.layers):\n"
                    "    other.self_attn, other.feed_forward = one.self_attn, one.feed_forward\n"
                    "return model"
                },
            ),
            "positions_before_the_embedding": (
                "You add positions before the tokens are looked up. Ids have no features to add to: first the vectors, then their places.",
                {
                    "nn.Sequential(..., _)": "nn.Sequential(_, Embeddings(d_model, vocab))",
                    "model.src_embed[0]": "model.src_embed[1]",
                    "model.tgt_embed[0]": "model.tgt_embed[1]",
                },
            ),
            "heads_and_width_swapped": (
                "You give the attention its width for the number of heads, and the other way round. `MultiHeadedAttention` takes the heads first.",
                {"MultiHeadedAttention(h, d_model, dropout)": "MultiHeadedAttention(d_model, h, dropout)"},
            ),
            "heads_ignored": (
                "Your attentions do not have the number of heads that was asked for. Their matrices have the same shapes with any number, so nothing raises.",
                {"h": "1"},
            ),
            "widths_swapped": (
                "Your feed-forward networks go from d_ff to d_model and back. d_model is the width of the tokens' vectors, d_ff that of the hidden layer.",
                {"feed_forward(): return ...": "return PositionwiseFeedForward(d_ff, d_model, dropout)"},
            ),
            "vocabularies_swapped": (
                "Your source embedding has the target's vocabulary, and the target embedding the source's.",
                {
                    "model = ...": "model = EncoderDecoder(Encoder(encoder_layer, n), Decoder(decoder_layer, n), embed(tgt_vocab), embed(src_vocab), Generator(d_model, tgt_vocab))"
                },
            ),
            "source_vocabulary_twice": (
                "Your target embedding has the source's vocabulary. With vocabularies of one size nobody would notice.",
                {"embed(tgt_vocab)": "embed(src_vocab)"},
            ),
            "generator_of_the_source": (
                "Your generator predicts source tokens: it has the source's vocabulary. What is to be predicted is the target.",
                {"Generator(d_model, tgt_vocab)": "Generator(d_model, src_vocab)"},
            ),
            "six_layers_in_the_decoder": (
                "Your decoder does not have n layers. Both stacks have the same number.",
                {"Decoder(_, n)": "Decoder(_, 6)"},
            ),
            "one_attention_for_both": (
                "Both attentions of a decoder layer are one and the same object, so they share their matrices; and a deep copy keeps it so, for what is one inside "
                "a layer stays one in its copy. Looking back and looking at the source are two things to learn.",
                {"decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, *[self_attention()] * 2, feed_forward(), dropout, norm)"},
            ),
            "one_table_always": (
                "Source and target share an embedding although nobody asked for it. They do so with `tie=True` only: two vocabularies have nothing in common but "
                "their numbers.",
                {"embed(tgt_vocab)": "source", "embed(src_vocab)": "source", "decoder_layer = _": "decoder_layer = _\nsource = embed(src_vocab)"},
            ),
            "target_without_positions": (
                "Your target embedding adds no positions. The mask tells the decoder what came before, but not in which order.",
                {"embed(tgt_vocab)": "nn.Sequential(Embeddings(d_model, tgt_vocab))"},
            ),
            "source_without_positions": (
                "Your source embedding adds no positions. To the encoder the source is then a bag of words (day 2).",
                {"embed(src_vocab)": "nn.Sequential(Embeddings(d_model, src_vocab))"},
            ),
            # --- make_model: norm
            "norm_not_passed_on": (
                "You do not pass `norm` on: whatever is asked for, every layer is post-norm.",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(d_model, self_attention(), feed_forward(), dropout)",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, self_attention(), self_attention(), feed_forward(), dropout)",
                },
            ),
            "norm_not_passed_to_the_decoder": (
                "Your decoder's layers are post-norm whatever is asked for: `norm` reaches the encoder only.",
                {"decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, self_attention(), self_attention(), feed_forward(), dropout)"},
            ),
            "norm_not_passed_to_the_encoder": (
                "Your encoder's layers are post-norm whatever is asked for: `norm` reaches the decoder only.",
                {"encoder_layer = ...": "encoder_layer = EncoderLayer(d_model, self_attention(), feed_forward(), dropout)"},
            ),
            "pre_norm_by_default": (
                "Your model is pre-norm where nothing is said of it. Most later models are; the paper's is post-norm.",
                {"norm='post'": "norm='pre'"},
            ),
            # --- make_model: dropout
            "dropout_not_passed_on": (
                "You do not pass `dropout` on to attention and feed-forward network, so they keep a probability of their own: 0.1. With dropout=0 the model still "
                "draws at random in training.",
                {"self_attention(): dropout": "", "feed_forward(): dropout": ""},
            ),
            "dropout_not_passed_to_attention": (
                "Your attentions do not get `dropout`, and keep a probability of their own for their weights. With dropout=0 the model still draws at random in "
                "training.",
                {"self_attention(): dropout": ""},
            ),
            "dropout_not_passed_to_the_network": (
                "Your feed-forward networks do not get `dropout`, and keep a probability of their own. With dropout=0 the model still draws at random in training.",
                {"feed_forward(): dropout": ""},
            ),
            "no_dropout_in_attention": (
                "Nothing is ever dropped from your attention weights. It is one of the places where this model drops with the probability that is asked for.",
                {"self_attention(): dropout": "0.0"},
            ),
            "no_dropout_on_the_embeddings": (
                "Nothing is ever dropped from the sums of embeddings and positions. The paper drops there too, in both stacks (§5.4).",
                {"embed(): dropout": "0.0"},
            ),
            "dropout_of_its_own_on_the_embeddings": (
                "The sums of embeddings and positions are dropped with a fixed probability, not with the one that is asked for. With dropout=0 the model still "
                "draws at random in training.",
                {"embed(): dropout": "0.1"},
            ),
            "no_dropout_at_the_shortcuts": (
                "Your layers are made without `dropout`: what attention and network add to the shortcut is never dropped. That is the dropout that the paper "
                "speaks of first (§5.4).",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(d_model, self_attention(), feed_forward(), 0.0, norm)",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(d_model, self_attention(), self_attention(), feed_forward(), 0.0, norm)",
                },
            ),
            "no_dropout_by_default": (
                "Where nothing is said of it your model drops nothing. The paper's base model has P_drop = 0.1 (table 3).",
                {"dropout=0.1": "dropout=0.0"},
            ),
            # --- make_model: the start
            "not_initialised": (
                "You leave the matrices as `nn.Linear` starts them, uniform within ±1/√inputs: with a third of the variance that a square matrix has under Xavier.",
                {"nn.init.xavier_uniform_(module.weight)": ""},
            ),
            "xavier_normal": (
                "You draw from Xavier's normal distribution. It has the same variance, but no bound; here it is the uniform one, as in the paper of Glorot and "
                "Bengio.",
                {"nn.init.xavier_uniform_": "nn.init.xavier_normal_"},
            ),
            "wider_than_xavier": (
                "Your matrices start uniform, but wider than Xavier's bound: by a gain, or by He's (Kaiming's) rule, which counts a matrix's inputs alone. Both "
                "are meant for a ReLU that comes after; here the bound is √(6 / (inputs + outputs)) for every matrix.",
                {"nn.init.xavier_uniform_(_)": "nn.init.xavier_uniform_(_, gain=math.sqrt(2))"},
            ),
            "small_normal": (
                "You draw every matrix from a narrow normal distribution of fixed deviation, as BERT and GPT-2 do. Here the spread depends on the matrix's shape: "
                "√(6 / (inputs + outputs)).",
                {"nn.init.xavier_uniform_(_)": "nn.init.normal_(_, std=0.02)"},
            ),
            "xavier_on_the_tables": (
                "Your embedding tables are drawn anew, and come out too narrow: so it goes where everything that has two axes is drawn as a weight matrix. A table "
                "is no layer: nothing is summed over the vocabulary, so its size says nothing about the scale. `Embeddings` has started it well.",
                {"nn.Linear": "nn.Linear | nn.Embedding"},
            ),
            "only_the_encoder_initialised": (
                "Only the encoder's matrices are drawn anew. The decoder's, and the generator's, wait for it as well.",
                {"model.modules": "model.encoder.modules"},
            ),
            "generator_not_initialised": (
                "The matrices of the two stacks are drawn anew, and the generator's is forgotten. It is a weight matrix like the others.",
                {"model.modules()": "[*model.encoder.modules(), *model.decoder.modules()]"},
            ),
            "clones_start_equal": (
                "All layers of a stack start with equal matrices, as if they had been drawn before the layers were copied. Draw when the model is put together, so "
                "that each layer begins as one of its own.",
                {
                    "return model": "for stack in (model.encoder, model.decoder):\n"
                    "    for layer in stack.layers[1:]:\n"
                    "        layer.load_state_dict(stack.layers[0].state_dict())\n"
                    "return model"
                },
            ),
            # --- make_model: tying
            "not_tied": (
                "Your model has three matrices whatever `tie` says.",
                {"model.tgt_embed[0].lut.weight = table": "pass", "model.generator.proj.weight = table": "pass"},
            ),
            "tied_by_memory_only": (
                "You tie the matrices' memory and not the Parameters: there are still three of them, with three gradients, and an optimiser counts and moves that "
                "memory three times. One move to another dtype, and they are strangers. One Parameter has to stand in three places.",
                {"_.weight = table\nmodel.generator.proj.weight = table": "_.weight.data = table.data\nmodel.generator.proj.weight.data = table.data"},
            ),
            "tied_by_copying": (
                "You copy the numbers from one matrix to the others. They are equal until the first step of training, which moves each its own way. One Parameter "
                "has to stand in three places.",
                {
                    "_.weight = table\nmodel.generator.proj.weight = table": "nn.init.zeros_(_.weight).data += table.data\n"
                    "nn.init.zeros_(model.generator.proj.weight).data += table.data"
                },
            ),
            "output_tied_by_copying": (
                "Your output projection gets a copy of the table: a Parameter of its own, equal until the first step of training moves the two apart. One "
                "Parameter has to stand in three places.",
                {"model.generator.proj.weight = table": "model.generator.proj.weight = nn.Parameter(table.detach().clone())"},
            ),
            "output_not_tied": (
                "You tie the two embeddings and leave the output projection on its own. The paper shares one matrix between all three (§3.4).",
                {"model.generator.proj.weight = table": "pass"},
            ),
            "source_not_tied": (
                "You tie the target's embedding and the output projection, and leave the source's embedding on its own. The paper shares one matrix between all "
                "three (§3.4); hence the joint vocabulary.",
                {"model.src_embed": "model.tgt_embed"},
            ),
            "target_not_tied": (
                "You tie the source's embedding and the output projection, and leave the target's embedding on its own. The paper shares one matrix between all "
                "three (§3.4).",
                {"model.tgt_embed[0].lut.weight = table": "pass"},
            ),
            "tied_matrix_starts_as_a_projection": (
                "Your one matrix starts too narrow, as a projection would: the projection's was handed to the embeddings, or the matrices were drawn when they "
                "were tied already, and the projection is one of them. It is to start as an embedding, or the tokens enter more softly than the positions that are "
                "added to them.",
                {"model.generator.proj.weight = table": "model.generator.proj.weight = table\nnn.init.xavier_uniform_(table)"},
            ),
            "tied_without_bias": (
                "In your tied model the generator has lost its bias. Only the matrices are shared; an embedding has no bias to share, and how frequent a token is "
                "has to be written somewhere.",
                {"model.generator.proj.weight = table": "model.generator.proj.weight = table\nmodel.generator.proj.register_parameter('bias', None)"},
            ),
            "tied_by_default": (
                "Your model is tied where nothing is said of it. The paper's was, but that needs a joint vocabulary; here tying is asked for.",
                {"tie=False": "tie=True"},
            ),
        },
    ),
]
