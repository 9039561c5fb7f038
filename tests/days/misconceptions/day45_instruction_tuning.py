"""Day 45: what goes wrong between a conversation and the loss."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "chat_tokens",
        {
            "end_not_written": (
                "The assistant's end token is in your tokens, but not marked as written. A model that never learns to write the end token never stops: it "
                "answers, and then continues as the user.",
                {"2: append(..., ...)": 'append(encode(message["content"]), by_assistant)\nappend([end])'},
            ),
            "all_written": (
                "You mark every token as written by the assistant, so that the model also learns to ask the user's questions.",
                {'by_assistant = message["role"] == "assistant"': "by_assistant = True", "1: append(_)": "append(_, True)", "3: append(_)": "append(_, True)"},
            ),
            "header_written": (
                "You mark the header of the assistant's messages as written. The model does not write the header: the program that asks for a reply does.",
                {"1: append(_)": "append(_, by_assistant)"},
            ),
            "line_break_written": (
                "You mark the line break after the end token as written. Sampling stops at the end token, so the model never writes what follows it.",
                {"3: append(_)": "append(_, by_assistant)"},
            ),
            "user_written": (
                "You mark the user's messages as written, and not the assistant's.",
                {'message["role"] == "assistant"': 'message["role"] == "user"'},
            ),
            "system_written": (
                "You mark everything as written except the user's messages. The system message is an instruction, too: only the assistant's messages should "
                "be learned.",
                {'message["role"] == "assistant"': 'message["role"] != "user"'},
            ),
            "last_answer_alone": (
                "You mark only the last message as written. The assistant also wrote the earlier answers of the conversation, and the model can learn from "
                "each of them.",
                {'message["role"] == "assistant"': 'message["role"] == "assistant" and message is messages[-1]'},
            ),
            "no_end": (
                "Your messages have no end token. The model cannot see where a message ends, and never learns to end its own messages.",
                {'[*encode(message["content"]), end]': 'encode(message["content"])'},
            ),
            "no_role": (
                "Your messages have no role. The model cannot see who says what.",
                {"1: encode(...)": 'encode("\\n")'},
            ),
            "no_line_break_after_role": (
                "The line break between the role and the content is missing. The format is a convention, and a published model has seen it in each of its "
                "conversations, so every token of the format matters.",
                {"1: encode(...)": 'encode(message["role"])'},
            ),
            "no_line_break_after_end": (
                "The line break after the end token is missing. It follows every message, the last one included.",
                {"3: append(...)": "pass"},
            ),
            "no_line_break_at_the_end": (
                "The line break after the last message is missing. It is not a separator between messages: it follows every end token, the last one included.",
                {"3: append(_)": "if message is not messages[-1] or reply:\n    append(_)"},
            ),
            "always_asks_for_a_reply": (
                "Your tokens end with the header of a reply even if `reply` is False. In a training example, nothing follows it.",
                {"if reply: _": "_"},
            ),
            "never_asks_for_a_reply": (
                "`reply` changes nothing in your tokens. If `reply` is True, they should end with the header of the assistant's message. Without this "
                "header, the model may continue as the user.",
                {"if reply: _": "pass"},
            ),
            "reply_after_a_question_alone": (
                "After an answer, `reply` changes nothing in your tokens. The tokens should end with the header of a reply, whoever wrote the last message.",
                {"if reply: _": 'if reply and messages[-1]["role"] == "user":\n    _'},
            ),
            "reply_not_opened": (
                "Your header for a reply is incomplete. It should consist of start, `assistant` and a line break, as in front of every message of the "
                "assistant.",
                {"4: [start, *_]": "[start]"},
            ),
            "reply_written": (
                "You mark the header that `reply` appends as written. The model does not write this header, so no loss should contain it.",
                {"4: append(_)": "append(_, True)"},
            ),
            "content_stripped": (
                "You remove white space around the content. Code then loses its first indentation, and the model never learns to write that.",
                {'message["content"]': 'message["content"].strip()'},
            ),
            "nothing_in_float": (
                "Without any messages your tensors have the wrong dtype: `torch.tensor([])` is float32. Pass the dtype.",
                {"torch.tensor(tokens, dtype=torch.long)": "torch.tensor(tokens)", "torch.tensor(written, dtype=torch.bool)": "torch.tensor(written)"},
            ),
            "header_and_content_together": (
                "You encode the header and the content as one text. A tokenizer may join the line break with the start of the content, but when you sample, "
                "the prompt ends with the line break alone, so the model never sees the joined token.",
                {
                    "1: append(...)": "append([start])",
                    "2: append(..., ...)": "ids, head = encode(f\"{message['role']}\\n{message['content']}\"), len(message[\"role\"]) + 1\nappend(ids[:head])\nappend([*ids[head:], end], by_assistant)",
                },
            ),
        },
    ),
    *of(
        "answer_labels",
        {
            "not_shifted": (
                "Your label of each position is that position's own token. The model has just read that token, and copying it costs nothing: "
                "the loss falls to 0, and the model has learned nothing. The label is the *next* token.",
                {"labels[_, :-1] = ...": "labels[...] = tokens.masked_fill(~written, -100)"},
            ),
            "shifted_twice": (
                "Your label of position t is token t + 2. Shift once.",
                {"labels[_, :-1] = ...": "labels[..., :-2] = tokens[..., 2:].masked_fill(~written[..., 2:], -100)"},
            ),
            "shifted_back": (
                "Your label of each position is the token *before* it, which the model has read. It should be the token after it.",
                {"labels[_, :-1] = ...": "labels[..., 1:] = tokens[..., :-1].masked_fill(~written[..., :-1], -100)"},
            ),
            "position_written": (
                "You keep a label where the token *at* the position is written, not the token that is predicted there. So the model never learns the first "
                "token of an answer, and learns the token that follows the answer instead.",
                {"~written[_, 1:]": "~written[_, :-1]"},
            ),
            "wraps_around": (
                "The last position of your labels has the row's first token: `roll` wraps around. Nothing follows the last token, so its label is −100.",
                {"labels[_, :-1] = ...": "labels = tokens.roll(-1, -1).masked_fill(~written.roll(-1, -1), -100)"},
            ),
            "goes_on_in_the_next_row": (
                "The last position of your rows predicts the next row's first token. Different rows are different texts.",
                {"labels[_, :-1] = ...": "labels.view(-1)[:-1] = tokens.reshape(-1)[1:].masked_fill(~written.reshape(-1)[1:], -100)"},
            ),
            "rows_shifted": (
                "In a batch you shift the rows: each row's labels are the tokens of the next row. Shift along the last axis, which is time.",
                {"labels[_, :-1] = ...": "labels[:-1] = tokens[1:].masked_fill(~written[1:], -100)"},
            ),
            "zero_for_ignored": (
                "You use the label 0 for tokens that are not learned. 0 is an ordinary token id, so the model learns to predict it; the loss ignores only the label −100.",
                {"torch.full_like(tokens, -100)": "torch.zeros_like(tokens)", "labels[_, :-1] = ...": "labels[..., :-1] = tokens[..., 1:] * written[..., 1:]"},
            ),
            "all_learned": (
                "You use every next token as a label, whether the assistant wrote it or not.",
                {"_.masked_fill(..., ...)": "_"},
            ),
            "written_inverted": (
                "Your labels are the tokens that the assistant did *not* write.",
                {"~written[_, 1:]": "written[_, 1:]"},
            ),
            "one_shorter": (
                "Your labels are one shorter than the tokens. Give the last position the label −100, so that tokens and labels can be packed together.",
                {"return labels": "return labels[..., :-1]"},
            ),
            "tokens_overwritten": (
                "You write −100 into the tokens themselves. The tokens are the model's input: copy them first.",
                {"labels[_, :-1] = ...": "tokens.masked_fill_(~written, -100)\nlabels[..., :-1] = tokens[..., 1:]"},
            ),
        },
    ),
    *of(
        "pack",
        {
            "positions_run_on": (
                "Your positions run through the whole row. The model then sees an example's first token at position 40, say. Without packing, this token is "
                "at position 0.",
                {"torch.arange(length, device=device) - first": "torch.arange(length, device=device).expand_as(first).clone()"},
            ),
            "examples_see_each_other": (
                "Your mask is causal over the row, so a token attends to the examples before its own: to other people's conversations.",
                {"(first.unsqueeze(2) == first.unsqueeze(1)) & causal": "causal.expand(len(used), length, length).clone()"},
            ),
            "sees_what_follows": (
                "Your tokens attend to later tokens of their example, which the model has to predict.",
                {"_ & causal": "_"},
            ),
            "mask_inverted": (
                "Your mask is True where attention is *not* allowed. Here, True means that a position may be attended to.",
                {"mask = _": "mask = ~(_)"},
            ),
            "padding_sees_nothing": (
                "The rows of your mask that belong to padding have no True. A softmax over nothing is NaN, and NaN times 0 is NaN. Let padding attend to "
                "padding, as if it were one more example.",
                {"mask = _": "mask = _ & (packed != pad).unsqueeze(2)"},
            ),
            "padding_seen": (
                "Your last example and the padding behind it attend as one example, so the padding's positions run on from it.",
                {
                    "torch.tensor(used, dtype=torch.long, device=device)": "torch.tensor([max([b for r, b in places if r == row]) for row in range(len(used))], dtype=torch.long, device=device)"
                },
            ),
            "padding_alone": (
                "Each of your padding tokens attends only to itself, at position 0. Here, the padding of a row is one more example: its positions count up "
                "from 0, and it attends to earlier padding.",
                {
                    "positions = _": "positions = (_).masked_fill(first == torch.tensor(used, dtype=torch.long, device=device).unsqueeze(1), 0)",
                    "mask = _": "mask = _ & ((positions > 0).unsqueeze(2) | torch.eye(length, dtype=torch.bool, device=device))",
                },
            ),
            "pad_not_seen": (
                "You hide tokens that equal `pad` from their own example. `pad` is often a token that occurs in texts as well, such as the end token. Only "
                "the tokens that fill up a row are padding.",
                {"mask = _": "mask = _ & ((packed != pad).unsqueeze(1) | (packed == pad).unsqueeze(2))"},
            ),
            "pad_not_learned": (
                "You remove a label because it equals `pad`. `pad` is often the end token, and then the model never learns to stop. Only the padding behind "
                "the examples should have no label.",
                {"return _": "labels = labels.masked_fill(labels == pad, -100)\nreturn _"},
            ),
            "nothing_learned_after_pad": (
                "You remove the label of a position whose token equals `pad`. An example can contain that token, too. Only the padding behind the examples "
                "should have no label.",
                {"return _": "labels = labels.masked_fill(packed == pad, -100)\nreturn _"},
            ),
            "padding_learned": (
                "The labels of your padding are the padding token. The model then learns to write padding. The label of padding should be −100.",
                {"labels = ...": "labels = packed.clone()"},
            ),
            "one_example_a_row": (
                "Each of your rows holds a single example, and the rest is padding. Put several examples into a row while there is room.",
                {"row = ...": "row = len(used)"},
            ),
            "last_row_alone": (
                "You look for room only in the last row. A short example may still fit into an earlier row.",
                {"row = ...": "row = len(used) - 1 if used and used[-1] + len(tokens) <= length else len(used)"},
            ),
            "fullest_row": (
                "Of several rows with room, you choose the fullest. Choose the first.",
                {"row = ...": "row = max((i for i, n in enumerate(used) if n + len(tokens) <= length), key=lambda i: used[i], default=len(used))"},
            ),
            "last_row_with_room": (
                "Of several rows with room, you choose the last. Choose the first.",
                {"row = ...": "row = next((i for i in reversed(range(len(used))) if used[i] + len(tokens) <= length), len(used))"},
            ),
            "longest_first": (
                "You sort the examples by length. That packs more tightly, but here the examples should stay in the given order.",
                {"used: ... = []": "used, examples = [], sorted(examples, key=lambda one: -len(one[0]))"},
            ),
            "never_full": (
                "You put an example that needs exactly the room that is left into a new row, so your rows never become full.",
                {"n + len(tokens) <= length": "n + len(tokens) < length"},
            ),
        },
    ),
    *on_devices(
        "pack",
        {
            "positions_on_the_cpu": (
                "You create the positions on the CPU, but the examples may be on a GPU. Create them on the examples' device.",
                {"4: torch.arange(length, device=device)": "torch.arange(length)"},
            ),
        },
    ),
]
