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
            "cross_entropy_of_torch_as_it_comes": (
                "You call PyTorch's `cross_entropy` with its own `label_smoothing`. That loss differs in three ways: its ε goes to all classes, including the padding; "
                "it is a mean over the rows instead of a sum; and its minimum is not 0.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.cross_entropy(wide, target, ignore_index=self.padding_idx, label_smoothing=self.smoothing)"},
            ),
            "cross_entropy_and_share_of_size_less_one": (
                "Your loss is a cross-entropy against a target that gives every other class ε / (size − 1). The padding gets no share, so ε is shared by size − 2 "
                "classes; and the divergence also has the term Σ q log q, which makes its minimum 0.",
                {"self.size - 2": "self.size - 1", "return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "cross_entropy_and_share_of_size": (
                "Your loss is a cross-entropy against a target that gives every other class ε / size. Two classes get no share, the correct one and the padding; and "
                "the divergence also has the term Σ q log q, which makes its minimum 0.",
                {"self.size - 2": "self.size", "return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "cross_entropy_and_padding_divided_among": (
                "Your loss is a cross-entropy against a target in which every class but the correct one, including the padding, has ε / (size − 1). The padding should "
                "get nothing; and the divergence also has the term Σ q log q, which makes its minimum 0.",
                {"self.size - 2": "self.size - 1", "smoothed[...] = 0": "", "return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "as_torch_smooths_but_the_padding": (
                "You spread ε over all classes including the correct one, as PyTorch's `cross_entropy` does, and clear the padding afterwards. Here the correct class "
                "has exactly 1 − ε, and ε goes to the size − 2 others.",
                {"self.size - 2": "self.size", "1 - _": "1 - _ + _ / self.size"},
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
            "right_class_shares": (
                "Your correct class gets a share of ε in addition to its 1 − ε. The paper's formula can be read that way, but the docstring settles it: 1 − ε for the "
                "correct class, and ε for all the *others* together.",
                {"self.size - 2": "self.size - 1", "1 - self.smoothing": "1 - self.smoothing * (self.size - 2) / (self.size - 1)"},
            ),
            "right_class_added_to": (
                "You *add* 1 − ε to the share of ε that the correct class already has. It should replace that share; your target sums to more than 1.",
                {"smoothed.scatter_": "smoothed.scatter_add_", "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)"},
            ),
            "whole_epsilon_each": (
                "Every other class gets all of ε in your answer. They get ε *together*, in equal shares.",
                {"_ / (self.size - 2)": "_"},
            ),
            "share_without_epsilon": (
                "The other classes share 1 in your answer instead of ε. Together they get ε, and the correct class gets the rest.",
                {"self.smoothing / (self.size - 2)": "1 / (self.size - 2)"},
            ),
            "epsilon_and_confidence_swapped": (
                "ε and 1 − ε are swapped: you give ε to the correct class and spread the rest. With an ε of 0.1, the model would be trained to be wrong.",
                {"self.smoothing = smoothing": "self.smoothing = 1 - smoothing"},
            ),
            "one_for_the_right_class": (
                "Your correct class keeps 1 although ε goes to the others. The sum should be 1: the correct class gives up what the others get.",
                {"1 - self.smoothing": "1.0"},
            ),
            "smoothing_ignored": (
                "Your loss does not depend on ε: its target has 1 at the correct class and 0 elsewhere.",
                {"self.smoothing = smoothing": "self.smoothing = 0.0"},
            ),
            "others_get_nothing": (
                "Your correct class has 1 − ε, but no class gets the ε. The loss is then the plain loss times 1 − ε.",
                {"self.smoothing / (self.size - 2)": "0.0"},
            ),
            "smoothing_by_default": (
                "You smooth even if no ε is given. The default is 0, without smoothing.",
                {"smoothing=0.0": "smoothing=0.1"},
            ),
            # --- the padding
            "padding_always_0": (
                "You treat class 0 as the padding, whatever `padding_idx` is: rows with target 0 do not count, and rows of padding do.",
                {"self.padding_idx = padding_idx": "self.padding_idx = 0"},
            ),
            "padding_rows_where_target_is_0": (
                "You compare the target with 0 to find rows of padding. Here 0 may be a real token: `padding_idx` says which class is the padding.",
                {"target == ...": "target == 0"},
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
            "padding_rows_are_right": (
                "In your answer, padding is a class to predict where it is the target. Such rows only fill the batch and should not count.",
                {"smoothed = _": "smoothed = _\nsmoothed[:, self.padding_idx] = 0", "smoothed[...] = 0": "", "smoothed.masked_fill_(..., 0)": ""},
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
            "one_loss_a_row": (
                "You return one loss per row. The result should be their sum, a single number.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.kl_div(wide, smoothed, reduction='none').sum(dim=-1)"},
            ),
            "with_an_axis": (
                "You return a tensor of shape (1,). The loss should be 0-dimensional.",
                {"return _": "return _.reshape(1)"},
            ),
            "plain_number": (
                "You return a plain number. It has no computation graph, so no gradients can be computed: return the tensor.",
                {"return _": "return _.item()"},
            ),
            "cross_entropy": (
                "Your loss is the cross-entropy, −Σ q log p. The divergence also has the term Σ q log q. It is a constant, so the gradient is the same, but it makes "
                "the minimum 0.",
                {"return ...": "return -(smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "entropy_added": (
                "The entropy of your target has the wrong sign: you add it to the cross-entropy instead of subtracting it. The divergence is Σ q (log q − log p), and 0 "
                "where p equals q.",
                {"return ...": "return -(torch.xlogy(smoothed, smoothed) + smoothed * wide).sum().to(log_probs.dtype)"},
            ),
            "log_of_zero": (
                "Your loss is NaN: somewhere the target is 0, log 0 is −∞, and 0 · (−∞) is NaN. In the divergence such a term is 0, and PyTorch has functions that "
                "handle it.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "(smoothed * (smoothed.log() - wide)).sum()"},
            ),
            "log_of_nearly_zero": (
                "You add a tiny number to the target before its logarithm. This avoids NaN, but every class is then off by that number, and float64 shows it. 0 · log 0 "
                "should be exactly 0.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "(smoothed * ((smoothed + 1e-8).log() - wide)).sum()"},
            ),
            "probabilities_for_logs": (
                "`F.kl_div` expects *log*-probabilities as its first argument, and you pass probabilities. No error is raised, because numbers between 0 and 1 could be "
                "logarithms.",
                {"3: wide": "wide.exp()"},
            ),
            "log_twice": (
                "You take the logarithm of a logarithm. `log_probs` are log-probabilities, all of them negative, and the logarithm of a negative number is NaN.",
                {"3: wide": "wide.log()"},
            ),
            "log_target": (
                "You tell `F.kl_div` that the target is given as logarithms, but yours are probabilities. By default, its first argument is log-probabilities and its "
                "second is probabilities.",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.kl_div(wide, smoothed, reduction='sum', log_target=True)"},
            ),
            "arguments_swapped": (
                "The arguments of `F.kl_div` are swapped. It expects the model's log-probabilities first and the target second, the reverse of the order in KL(q ‖ p).",
                {"F.kl_div(wide, smoothed, reduction='sum')": "F.kl_div(smoothed, wide, reduction='sum')"},
            ),
            "clamped_probabilities": (
                "You go back to probabilities, clamp them at a tiny number, and take the logarithm again. A model that is very confident and wrong then has no higher "
                "loss than a fairly confident one, and gets no gradient. Use the log-probabilities as they are.",
                {"wide = _": "wide = _\nwide = wide.exp().clamp(min=1e-9).log()"},
            ),
            "there_and_back": (
                "You convert log-probabilities to probabilities and back. A log-probability of −1000 is lost: its exponential is 0, and log 0 is −∞. Nothing here needs "
                "the probabilities.",
                {"wide = _": "wide = _\nwide = wide.exp().log()"},
            ),
            "normalised_again": (
                "You normalize the log-probabilities again. This changes no value, since they are already normalized, but it changes their gradient, costs time over "
                "the whole vocabulary, and hides a model that forgot its log-softmax.",
                {"wide = _": "wide = _\nwide = wide.log_softmax(dim=-1)"},
            ),
            "detached": (
                "Your value is right, but it has no gradient: the log-probabilities were detached from their computation graph (`.detach()`, `.data`, `no_grad`). Only "
                "the target may be.",
                {"log_probs.to": "log_probs.detach().to"},
            ),
            # --- whose memory is it
            "target_written_over_the_inputs": (
                "You write the target into the storage of the log-probabilities: `.data` is not a copy. They are overwritten, and you compare the target with itself.",
                {"torch.full_like(wide, _)": "wide.data.fill_(_)"},
            ),
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
            "target_kept": (
                "You build the target distribution for the first batch and keep it. The next batch has different targets, and often a different number of rows.",
                {
                    "self.smoothing = smoothing": "self.smoothing = smoothing\nself.smoothed = None",
                    "return ...": "if self.smoothed is None:\n    self.smoothed = smoothed\nreturn F.kl_div(wide, self.smoothed, reduction='sum').to(log_probs.dtype)",
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
            "target_in_float32": (
                "You always create the target in float32 and return a result in the promoted dtype: for half precision it has a different dtype than the inputs, and "
                "for float64 half of the digits are lost. Create it in the inputs' dtype, or wider, and cast the sum back.",
                {"torch.full_like(wide, _)": "torch.full(wide.shape, _, device=wide.device, dtype=torch.float32)", "_.to(log_probs.dtype)": "_"},
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
