"""Day 3: what goes wrong with masks."""

from course.judging.misconceptions import of

MISCONCEPTIONS = [
    *of(
        "padding_mask",
        {
            # --- padding_mask ------------------------------------------------------------------------------
            "padding_inverted": (
                "Your padding mask is True at padding: it shows what it should hide. Here, True means *may be attended to*. In some libraries True means "
                "*hidden*, so check the convention whenever you pass a mask to another library.",
                {"tokens != pad": "tokens == pad"},
            ),
            "pad_hard_wired": (
                "Your padding is always id 0: `pad` is ignored. With a different `pad`, real tokens with id 0 are hidden and padding is visible.",
                {"tokens != pad": "tokens != 0"},
            ),
            "only_ids_above_pad": (
                "Your mask shows only ids greater than `pad`. Ids are names, not quantities: an id below `pad` belongs to a real token, too. You do not "
                "notice the mistake as long as `pad` is 0.",
                {"tokens != pad": "tokens > pad"},
            ),
            "queries_hidden": (
                "Your padding mask has shape (B, T, 1): it hides padded *queries*, and every other query still attends to padded keys. Queries are rows and "
                "keys are columns, so the token axis must come last.",
                {"_[:, np.newaxis, :]": "_[:, :, np.newaxis]"},
            ),
            "no_axis_for_queries": (
                "Your padding mask has shape (B, T). When it is broadcast to scores of shape (B, T_q, T_k), its batch axis lines up with the queries. That "
                "raises an error, or, if the sizes happen to fit, the wrong sequence's padding is hidden. Give the mask an axis of length 1 for the queries, "
                "between the two.",
                {"_[:, np.newaxis, :]": "_"},
            ),
            "padding_with_a_head_axis": (
                "Your padding mask has shape (B, 1, 1, T), with an axis for the heads. Here there are no heads yet: a mask is (B, 1, T), and multi-head attention "
                "adds the axis itself.",
                {"_[:, np.newaxis, :]": "_[:, np.newaxis, np.newaxis, :]"},
            ),
            "repeated_for_every_query": (
                "Your padding mask has shape (B, T, T): the same row, repeated for each query. One row is enough, because an axis of length 1 "
                "broadcasts. And in cross-attention the number of queries can differ from the number of keys.",
                {"return _": "return np.repeat(_, tokens.shape[1], axis=1)"},
            ),
            "ends_at_the_first_pad": (
                "Your mask hides everything from the first padding token on. Padding can also be in front or in the middle, and a real token after padding "
                "must stay visible.",
                {"tokens != pad": "np.logical_and.accumulate(tokens != pad, axis=1)"},
            ),
            "padding_as_integers": (
                "Your padding mask holds the integers 1 and 0. Here a mask is boolean: `~1` is −2, and an array of integers used as an index selects rows "
                "instead of hiding entries.",
                {"return _": "return _.astype(int)"},
            ),
            "padding_to_be_added": (
                "Your padding mask holds 0 and −∞, as if it were added to the scores. Some libraries use such masks. Here a mask is boolean, and "
                "attention itself changes the scores.",
                {"tokens != pad": "np.where(tokens != pad, 0.0, -np.inf)"},
            ),
        },
    ),
    *of(
        "subsequent_mask",
        {
            # --- subsequent_mask ---------------------------------------------------------------------------
            "diagonal_hidden": (
                "Your diagonal is False: no position sees itself, and the first position sees nothing. Position i may attend to itself. It must predict "
                "the token at i + 1, because the decoder's input is shifted by one.",
                {"np.tril(_)": "np.tril(_, -1)"},
            ),
            "upper_triangle": (
                "Your triangle is the upper triangle: each position sees itself and its future. Rows are queries and columns are keys, so the entries to the "
                "right of the diagonal are the future.",
                {"np.tril": "np.triu"},
            ),
            "future_shown": (
                "Your mask is True exactly at the future, which is the opposite of the causal mask. Such a mask marks what to hide. Here, True means "
                "*may be attended to*.",
                {"np.tril(_)": "np.triu(_, 1)"},
            ),
            "one_step_ahead": (
                "Your triangle reaches one column too far: each position sees the next token, which is exactly the token it must predict. The training loss "
                "would look splendid, and generation would fail.",
                {"np.tril(_)": "np.tril(_, 1)"},
            ),
            "subsequent_without_batch": (
                "Your subsequent mask has shape (T, T). Add an axis of length 1 for the batch in front: all masks of this course have three axes, "
                "batch, queries, keys.",
                {"(1, size, size)": "(size, size)"},
            ),
            "subsequent_with_a_head_axis": (
                "Your subsequent mask has shape (1, 1, T, T), with an axis for the heads. Here there are no heads yet: a mask is (1, T, T), and multi-head "
                "attention adds the axis itself.",
                {"(1, size, size)": "(1, 1, size, size)"},
            ),
            "subsequent_as_floats": (
                "Your subsequent mask holds floats, NumPy's default dtype. Here a mask is boolean: it is a condition, not a factor.",
                {"dtype=bool": ""},
            ),
            "subsequent_to_be_added": (
                "Your subsequent mask holds 0 and −∞, as if it were added to the scores. Some libraries use such masks. Here a mask is boolean, and "
                "attention itself changes the scores.",
                {"np.tril(...)": "np.triu(np.full((1, size, size), -np.inf), 1)"},
            ),
        },
    ),
    *of(
        "target_mask",
        {
            # --- target_mask -------------------------------------------------------------------------------
            "or_for_and": (
                "Your target mask shows a key if it is real *or* not in the future. Each condition then cancels the other: real tokens in the future "
                "are visible, and so is padding in the past. Both conditions must hold.",
                {"padding_mask(tokens, pad) & _": "padding_mask(tokens, pad) | _"},
            ),
            "python_and": (
                "Your target mask combines two arrays with Python's `and`, which needs one truth value for an entire array. NumPy raises an error. Use the "
                "operator that works entry by entry.",
                {"padding_mask(tokens, pad) & _": "padding_mask(tokens, pad) and _"},
            ),
            "pad_not_passed_on": (
                "Your target mask does not pass `pad` on to the padding mask, so it always hides id 0. As long as padding has the id 0, you will not notice.",
                {"padding_mask(tokens, pad)": "padding_mask(tokens)"},
            ),
            "padded_queries_hidden_too": (
                "Your target mask hides padded queries as well as padded keys. That creates rows without any visible key and has no benefit, because nothing "
                "reads the output of a padded query.",
                {"return _ & ...": "return _ & np.swapaxes(_, 1, 2) & subsequent_mask(tokens.shape[1])"},
            ),
            "only_queries_hidden": (
                "Your target mask hides the rows of padded queries but shows padded keys. Queries attend to keys, so the padding mask must apply to columns.",
                {"padding_mask(tokens, pad)": "np.swapaxes(padding_mask(tokens, pad), 1, 2)"},
            ),
            "padding_forgotten": (
                "Your target mask is only the triangle: it hides the future but shows padding. It must hide both.",
                {"padding_mask(tokens, pad) & _": "_"},
            ),
            "future_forgotten": (
                "Your target mask is only the padding mask: it hides padding but shows the future. A decoder trained with it copies the next token "
                "instead of predicting it.",
                {"return _ & ...": "return _"},
            ),
            "triangle_of_the_batch": (
                "Your triangle is as large as the batch. `tokens` has the shape (B, T), and the size of the triangle is T, the length of the sequences.",
                {"tokens.shape[1]": "tokens.shape[0]"},
            ),
            "tokens_for_a_size": (
                "You pass the tokens themselves to `subsequent_mask`. It takes a number, the length T of the sequences, which is the last number in the shape "
                "of `tokens`.",
                {"tokens.shape[1]": "tokens"},
            ),
            "target_upper_triangle": (
                "Your target mask hides padding and the past, and shows the future. Rows are queries and columns are keys, so the entries to the right of the "
                "diagonal are the future.",
                {"subsequent_mask(_)": "np.swapaxes(subsequent_mask(_), 1, 2)"},
            ),
            "target_shows_the_future": (
                "Your target mask hides padding and shows exactly the future: you combined a mask of what to hide with a mask of what to show. Here, "
                "True means *may be attended to*.",
                {"subsequent_mask(_)": "~subsequent_mask(_)"},
            ),
            "target_inverted": (
                "Your target mask is True exactly where it should be False: it marks what to hide. Here, True means *may be attended to*.",
                {"return _": "return ~_"},
            ),
            "target_as_integers": (
                "Your target mask holds integers, 1 and 0. Both conditions are boolean, and so is their combination, unless you convert it.",
                {"return _": "return _.astype(int)"},
            ),
        },
    ),
]
