"""Day 16: what goes wrong with label smoothing."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "LabelSmoothing",
        {
            # --- the shares
            "as_torch_smooths": (
                "Your ε is spread over all classes equally, including the correct one and the padding: that is the label smoothing of PyTorch's `cross_entropy`. Here ε "
                "goes to the other classes only, and the padding gets nothing.",
                {
                    "self.size - 2": "self.size",
                    "smoothed.scatter_": "smoothed.scatter_add_",
                    "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)",
                    "smoothed[...] = 0": "",
                },
            ),
            "cross_entropy_of_torch": (
                "You call PyTorch's `cross_entropy` with its own `label_smoothing`. That is a different loss: its ε goes to all classes, including the correct one and "
                "the padding, and the entropy is not subtracted, so its minimum is not 0.",
                {
                    "F.kl_div(wide, smoothed, reduction='sum')": "F.cross_entropy(wide, target, ignore_index=self.padding_idx, reduction='sum', label_smoothing=self.smoothing)"
                },
            ),
            "cross_entropy_and_padding_divided_among": (
                "Your loss is a cross-entropy against a target in which every class but the correct one, including the padding, has ε / (size − 1). The padding should "
                "get nothing; and the divergence also has the term Σ q log q, which makes its minimum 0.",
                {"self.size - 2": "self.size - 1", "smoothed[...] = 0": "", "return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "share_of_size": (
                "You divide ε by the number of all classes. Two of them get no share, the correct one and the padding, so a little of ε is lost and your target sums to "
                "less than 1.",
                {"self.size - 2": "self.size"},
            ),
            "share_of_size_less_one": (
                "You divide ε by size − 1. Neither the correct class nor the padding gets a share, so ε is shared by size − 2 classes, and your target sums to less "
                "than 1.",
                {"self.size - 2": "self.size - 1"},
            ),
            "right_class_added_to": (
                "You *add* 1 − ε to the share of ε that the correct class already has. It should replace that share; your target sums to more than 1.",
                {"smoothed.scatter_": "smoothed.scatter_add_", "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)"},
            ),
            "epsilon_and_confidence_swapped": (
                "ε and 1 − ε are swapped: you give ε to the correct class and spread the rest. With an ε of 0.1, the model would be trained to be wrong.",
                {"self.smoothing = smoothing": "self.smoothing = 1 - smoothing"},
            ),
            # --- the padding
            "padding_always_0": (
                "You treat class 0 as the padding, whatever `padding_idx` is: rows with target 0 do not count, and rows of padding do.",
                {"self.padding_idx = padding_idx": "self.padding_idx = 0"},
            ),
            "padding_has_a_share": (
                "The padding gets a share of ε in your answer. A model should never predict it, so its column of the target is 0 in every row.",
                {"smoothed[...] = 0": ""},
            ),
            "padding_divided_among": (
                "You give the padding a share like every other class, and divide by size − 1 so that the sum is 1. It should get none: otherwise the model is trained "
                "to predict padding now and then.",
                {"self.size - 2": "self.size - 1", "smoothed[...] = 0": ""},
            ),
            "padding_rows_count": (
                "Your rows of padding still count: only the column of the padding was set to 0, not these rows. Their ε is spread over real tokens, so the model is "
                "trained on positions after the end.",
                {"smoothed.masked_fill_(..., 0)": ""},
            ),
            "nothing_left_without_a_graph": (
                "If all rows are padding, you return a new zero. Its value is right, but it is not connected to the log-probabilities: `backward()` raises an error in "
                "the middle of a training run instead of giving gradients of 0.",
                {"return _": "if (target == self.padding_idx).all():\n    return log_probs.new_zeros(())\nreturn _"},
            ),
            # --- the divergence
            "mean_over_everything": (
                "You take the mean over all rows and classes. The result should be the sum: the training loop divides it by the number of real tokens.",
                {"reduction='sum'": "reduction='mean'"},
            ),
            "mean_over_rows": (
                "You divide by the number of rows. The result should be the sum: rows of padding should not change it, and the training loop divides by the number of "
                "real tokens.",
                {"reduction='sum'": "reduction='batchmean'"},
            ),
            "mean_over_real_rows": (
                "You divide by the number of real rows. The training loop will do that, possibly for several batches together; here the result should be the sum.",
                {"3: _.to": "(_ / (target != self.padding_idx).sum()).to"},
            ),
            "cross_entropy": (
                "Your loss is the cross-entropy, −Σ q log p. The divergence also has the term Σ q log q. It is a constant, so the gradient is the same, but it makes "
                "the minimum 0.",
                {"return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "log_of_zero": (
                "Your loss is NaN: somewhere the target is 0, log 0 is −∞, and 0 · (−∞) is NaN. In the divergence such a term is 0, and PyTorch has functions that "
                "handle it.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "(smoothed * (smoothed.log() - wide)).sum()"},
            ),
            "probabilities_for_logs": (
                "`F.kl_div` expects *log*-probabilities as its first argument, and you pass probabilities. No error is raised, because numbers between 0 and 1 could be "
                "logarithms.",
                {"3: wide": "wide.exp()"},
            ),
            "arguments_swapped": (
                "The arguments of `F.kl_div` are swapped. It expects the model's log-probabilities first and the target second, the reverse of the order in KL(q ‖ p).",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.kl_div(smoothed, wide, reduction='sum')"},
            ),
            "detached": (
                "Your value is right, but it has no gradient: the log-probabilities were detached from their computation graph (`.detach()`, `.data`, `no_grad`). Only "
                "the target may be.",
                {"log_probs.to": "log_probs.detach().to"},
            ),
            # --- whose memory is it
            "padding_zeroed_in_the_inputs": (
                "Your value is right, but you modify the log-probabilities, for example by setting rows of padding to 0 *in place*. In float32, no conversion copies "
                "them for you.",
                {"wide = _": "wide = _\nwide.data[target == self.padding_idx] = 0"},
            ),
            "flat_view": (
                "You assume that the log-probabilities are contiguous in memory. After a transposition they are not, and `view` raises an error. Index by row and class "
                "instead.",
                {"wide = _": "wide = _\nwide = wide.view(-1).view(-1, self.size)"},
            ),
            # --- what is kept between calls
            "running_total": (
                "Your module adds up the losses of all batches. Each call should return the loss of its own batch; the training loop adds them up.",
                {
                    "self.smoothing = smoothing": "self.smoothing = smoothing\nself.total = 0.0",
                    "return _.to(log_probs.dtype)": "self.total = self.total + _\nreturn self.total.to(log_probs.dtype)",
                },
            ),
            "only_in_training": (
                "You smooth in training mode only. Unlike dropout, this loss does not depend on the mode; for an unsmoothed loss to report, create one with an ε of 0.",
                {
                    "wide = _": "wide = _\nsmoothing = self.smoothing if self.training else 0.0",
                    "self.smoothing / _": "smoothing / _",
                    "1 - self.smoothing": "1 - smoothing",
                },
            ),
            # --- dtypes
            "computed_in_halves": (
                "You compute in the dtype of the log-probabilities. In half precision, a share of a large vocabulary is 0 or 1 − ε is 1, so the smoothing is lost. "
                "Compute in float32, and round at the end.",
                {"wide = ...": "wide = log_probs"},
            ),
            "computed_in_float32": (
                "You always compute in float32, so float64 loses half its digits. Upcast only narrower dtypes.",
                {"wide = ...": "wide = log_probs.float()"},
            ),
            "left_wide": (
                "Your loss is float32 for log-probabilities in half precision. Upcast them for the computation, but return the dtype of the input.",
                {"_.to(log_probs.dtype)": "_"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "LabelSmoothing",
        {
            "wanted_made_on_the_cpu": (
                "You make the distribution that is wanted on the CPU, and the log-probabilities may be on a GPU. `torch.full_like` makes it where they are.",
                {"torch.full_like(wide, _)": "torch.full(wide.shape, _, dtype=wide.dtype)"},
            ),
        },
    ),
]
