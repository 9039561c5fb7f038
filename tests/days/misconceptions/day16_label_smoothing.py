"""Day 16: what goes wrong with label smoothing."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "LabelSmoothing",
        {
            # --- the shares
            "as_torch_smooths": (
                "Your ε is spread equally over all classes, including the correct class and the padding, as in PyTorch's `cross_entropy`. Here only the other "
                "classes share ε, and the padding gets nothing.",
                {
                    "self.size - 2": "self.size",
                    "smoothed.scatter_": "smoothed.scatter_add_",
                    "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)",
                    "smoothed[...] = 0": "",
                },
            ),
            "cross_entropy_of_torch": (
                "You call PyTorch's `cross_entropy` with its own `label_smoothing`. That is a different loss: its ε goes to all classes, including the "
                "correct class and the padding, and it does not subtract the entropy, so its minimum is not 0.",
                {
                    "F.kl_div(wide, smoothed, reduction='sum')": "F.cross_entropy(wide, target, ignore_index=self.padding_idx, reduction='sum', label_smoothing=self.smoothing)"
                },
            ),
            "cross_entropy_and_padding_divided_among": (
                "Your loss is a cross-entropy against a target in which every class but the correct one, including the padding, has ε / (size − 1). The "
                "padding should get nothing. And the divergence also has the term Σ q log q, which makes its minimum 0.",
                {"self.size - 2": "self.size - 1", "smoothed[...] = 0": "", "return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "share_of_size": (
                "You divide ε by the number of all classes. Two classes get no share, the correct class and the padding, so a little of ε is lost, and your "
                "target sums to less than 1.",
                {"self.size - 2": "self.size"},
            ),
            "share_of_size_less_one": (
                "You divide ε by size − 1. Neither the correct class nor the padding gets a share, so size − 2 classes share ε. Your target sums to less than "
                "1.",
                {"self.size - 2": "self.size - 1"},
            ),
            "right_class_added_to": (
                "You *add* 1 − ε to the share of ε that the correct class already has, so your target sums to more than 1. Replace that share instead.",
                {"smoothed.scatter_": "smoothed.scatter_add_", "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)"},
            ),
            "epsilon_and_confidence_swapped": (
                "You swapped ε and 1 − ε: the correct class gets ε, and the other classes share the rest. With an ε of 0.1, the model would learn to be wrong.",
                {"self.smoothing = smoothing": "self.smoothing = 1 - smoothing"},
            ),
            # --- the padding
            "padding_always_0": (
                "You treat class 0 as the padding, whatever `padding_idx` is. Rows with target 0 do not count, but rows of padding do.",
                {"self.padding_idx = padding_idx": "self.padding_idx = 0"},
            ),
            "padding_has_a_share": (
                "In your answer the padding gets a share of ε. A model should never predict padding, so its column of the target must be 0 in every row.",
                {"smoothed[...] = 0": ""},
            ),
            "padding_divided_among": (
                "You give the padding a share of ε like every other class, and divide by size − 1 so that the sum is 1. The padding should get nothing: "
                "otherwise the model learns to predict padding now and then.",
                {"self.size - 2": "self.size - 1", "smoothed[...] = 0": ""},
            ),
            "padding_rows_count": (
                "Rows whose target is padding still count in your loss: you set only the column of the padding to 0, not these rows. Their ε is spread over "
                "real tokens, so the model is trained on positions after the end.",
                {"smoothed.masked_fill_(..., 0)": ""},
            ),
            "nothing_left_without_a_graph": (
                "If all rows are padding, you return a new zero. Its value is right, but it is not connected to the log-probabilities. `backward()` raises an "
                "error in the middle of a training run, instead of computing gradients of 0.",
                {"return _": "if (target == self.padding_idx).all():\n    return log_probs.new_zeros(())\nreturn _"},
            ),
            # --- the divergence
            "mean_over_everything": (
                "You take the mean over all rows and classes. Return the sum: the training loop divides by the number of real tokens.",
                {"reduction='sum'": "reduction='mean'"},
            ),
            "mean_over_rows": (
                "You divide by the number of rows. Return the sum: it should not depend on rows of padding, and the training loop divides by the number of "
                "real tokens.",
                {"reduction='sum'": "reduction='batchmean'"},
            ),
            "mean_over_real_rows": (
                "You divide by the number of real rows. Return the sum: the training loop divides, possibly for several batches together.",
                {"3: _.to": "(_ / (target != self.padding_idx).sum()).to"},
            ),
            "cross_entropy": (
                "Your loss is the cross-entropy, −Σ q log p. The divergence also has the term Σ q log q. This term is a constant, so the gradient is the "
                "same, but it makes the minimum 0.",
                {"return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "log_of_zero": (
                "Your loss is NaN. Where the target is 0, log 0 is −∞, and 0 · (−∞) is NaN. In the divergence such a term is 0, and PyTorch has functions "
                "that handle this case.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "(smoothed * (smoothed.log() - wide)).sum()"},
            ),
            "probabilities_for_logs": (
                "`F.kl_div` expects *log*-probabilities as its first argument, and you pass probabilities. No error is raised, because numbers between 0 and 1 could be "
                "logarithms.",
                {"3: wide": "wide.exp()"},
            ),
            "arguments_swapped": (
                "You swapped the arguments of `F.kl_div`. It expects the model's log-probabilities first and the target second, the reverse of the order in "
                "KL(q ‖ p).",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.kl_div(smoothed, wide, reduction='sum')"},
            ),
            "detached": (
                "Your value is right, but it has no gradient: the log-probabilities were detached from their computation graph (`.detach()`, `.data`, "
                "`no_grad`). Only the target may be detached.",
                {"log_probs.to": "log_probs.detach().to"},
            ),
            # --- whose memory is it
            "padding_zeroed_in_the_inputs": (
                "Your value is right, but you modify the log-probabilities, for example by setting rows of padding to 0 *in place*. Converting a float32 "
                "tensor to float32 makes no copy.",
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
                "You smooth only in training mode. Unlike dropout, this loss does not depend on the mode. To report an unsmoothed loss, the caller creates "
                "one with an ε of 0.",
                {
                    "wide = _": "wide = _\nsmoothing = self.smoothing if self.training else 0.0",
                    "self.smoothing / _": "smoothing / _",
                    "1 - self.smoothing": "1 - smoothing",
                },
            ),
            # --- dtypes
            "computed_in_halves": (
                "You compute in the dtype of the log-probabilities. In half precision, a class's share of ε can round to 0, or 1 − ε to 1, so the smoothing "
                "is lost. Compute in float32, and round at the end.",
                {"wide = ...": "wide = log_probs"},
            ),
            "computed_in_float32": (
                "You always compute in float32, so float64 loses half of its digits. Upcast only narrower dtypes.",
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
                "You create the target distribution on the CPU, but the log-probabilities can be on a GPU. `torch.full_like` creates a tensor on the device "
                "of its argument.",
                {"torch.full_like(wide, _)": "torch.full(wide.shape, _, dtype=wide.dtype)"},
            ),
        },
    ),
]
