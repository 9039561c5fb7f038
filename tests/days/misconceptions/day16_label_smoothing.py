"""Day 16: what goes wrong with label smoothing."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "LabelSmoothing",
        {
            # --- the shares
            "as_torch_smooths": (
                "Your ε is spread over all classes alike, the right one and the padding among them: that is the label smoothing of torch's `cross_entropy`. Here ε "
                "goes to the other classes only, and the padding is no class that one could mean.",
                {
                    "self.size - 2": "self.size",
                    "wanted.scatter_": "wanted.scatter_add_",
                    "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)",
                    "wanted[...] = 0": "",
                },
            ),
            "cross_entropy_of_torch": (
                "You call torch's `cross_entropy` with its own `label_smoothing`. That is another loss: its ε goes to all classes, the right one and the padding "
                "included, and no constant is taken off, so that its minimum is not 0.",
                {
                    "F.kl_div(wide, wanted, reduction='sum')": "F.cross_entropy(wide, target, ignore_index=self.padding_idx, reduction='sum', label_smoothing=self.smoothing)"
                },
            ),
            "cross_entropy_of_torch_as_it_comes": (
                "You call torch's `cross_entropy` with its own `label_smoothing`. That is another loss, three times over: its ε goes to all classes, the padding "
                "included; it is a mean over the rows, where the sum is wanted; and its minimum is not 0.",
                {"F.kl_div(wide, wanted, reduction='sum')": "F.cross_entropy(wide, target, ignore_index=self.padding_idx, label_smoothing=self.smoothing)"},
            ),
            "cross_entropy_and_share_of_size_less_one": (
                "Your loss is a cross-entropy against a target that gives every other class ε / (size − 1). The padding gets no share, so there are only size − 2 "
                "to divide among; and the divergence has the term Σ q log q as well, which brings its minimum down to 0.",
                {"self.size - 2": "self.size - 1", "return ...": "return -(wanted * wide).sum().to(log_probs.dtype)"},
            ),
            "cross_entropy_and_share_of_size": (
                "Your loss is a cross-entropy against a target that gives every other class ε / size. Two of them get no share, the right one and the padding; and "
                "the divergence has the term Σ q log q as well, which brings its minimum down to 0.",
                {"self.size - 2": "self.size", "return ...": "return -(wanted * wide).sum().to(log_probs.dtype)"},
            ),
            "cross_entropy_and_padding_divided_among": (
                "Your loss is a cross-entropy against a target in which every class but the right one, the padding too, has ε / (size − 1). The padding is to get "
                "nothing; and the divergence has the term Σ q log q as well, which brings its minimum down to 0.",
                {"self.size - 2": "self.size - 1", "wanted[...] = 0": "", "return ...": "return -(wanted * wide).sum().to(log_probs.dtype)"},
            ),
            "as_torch_smooths_but_the_padding": (
                "You spread ε over all classes, the right one among them, as torch's `cross_entropy` does, and clear the padding afterwards. Here the right class "
                "has 1 − ε and nothing more, and ε goes to the size − 2 others.",
                {"self.size - 2": "self.size", "1 - _": "1 - _ + _ / self.size"},
            ),
            "share_of_size": (
                "You divide ε by the number of all classes. Two of them get no share, the right one and the padding, so a little of ε is lost and your target sums "
                "to less than 1.",
                {"self.size - 2": "self.size"},
            ),
            "share_of_size_less_one": (
                "You divide ε among size − 1 classes: all but the right one. The padding gets no share either, so there are only size − 2 to divide among, and "
                "your target sums to less than 1.",
                {"self.size - 2": "self.size - 1"},
            ),
            "right_class_shares": (
                "In your answer the right class gets a share of ε on top of its 1 − ε. The paper's formula may be read so, but the docstring settles it: 1 − ε for "
                "the right class, and ε is what all the *others* have together.",
                {"self.size - 2": "self.size - 1", "1 - self.smoothing": "1 - self.smoothing * (self.size - 2) / (self.size - 1)"},
            ),
            "right_class_added_to": (
                "You *add* 1 − ε to what the right class has already, a share of ε. It replaces that share; as it is, your target sums to more than 1.",
                {"wanted.scatter_": "wanted.scatter_add_", "1 - self.smoothing": "torch.full_like(wide[:, :1], 1 - self.smoothing)"},
            ),
            "whole_epsilon_each": (
                "Every other class gets all of ε in your answer. They have ε *together*: each has its share of it.",
                {"_ / (self.size - 2)": "_"},
            ),
            "share_without_epsilon": (
                "The other classes share a whole 1 in your answer: ε is missing from their shares. Together they have ε, and the right class the rest.",
                {"self.smoothing / (self.size - 2)": "1 / (self.size - 2)"},
            ),
            "epsilon_and_confidence_swapped": (
                "ε and 1 − ε have changed places: you give ε to the right class and spread the rest. With an ε of 0.1 the model would be taught to be wrong.",
                {"self.smoothing = smoothing": "self.smoothing = 1 - smoothing"},
            ),
            "one_for_the_right_class": (
                "Your right class keeps a full 1 although ε is given to others. Both together should be 1: what the others get, the right one loses.",
                {"1 - self.smoothing": "1.0"},
            ),
            "smoothing_ignored": (
                "Your loss does not depend on ε: it is that of a target which is all on the right class.",
                {"self.smoothing = smoothing": "self.smoothing = 0.0"},
            ),
            "others_get_nothing": (
                "Your right class has 1 − ε, but nobody has got the ε. Without it no other class pulls back, and the loss is an ordinary one times 1 − ε.",
                {"self.smoothing / (self.size - 2)": "0.0"},
            ),
            "smoothing_by_default": (
                "Where no ε is given, you smooth all the same. The default is 0: nothing is smoothed unless somebody asks for it.",
                {"smoothing=0.0": "smoothing=0.1"},
            ),
            # --- the padding
            "padding_always_0": (
                "You take class 0 for the padding, whatever `padding_idx` says: rows whose target is 0 vanish, and rows of padding count.",
                {"self.padding_idx = padding_idx": "self.padding_idx = 0"},
            ),
            "padding_rows_where_target_is_0": (
                "You look for rows of padding by `target == 0`. Here 0 may be a word like any other: which class is the padding is what `padding_idx` says.",
                {"target == ...": "target == 0"},
            ),
            "padding_has_a_share": (
                "The padding gets a share of ε in your answer. It is no word that a model might have meant, so its column of the target is 0, in every row.",
                {"wanted[...] = 0": ""},
            ),
            "padding_divided_among": (
                "You give the padding a share like every other class, and divide by size − 1 so that all sums to 1. It should get none: a model that is told to "
                "keep some probability for padding keeps it.",
                {"self.size - 2": "self.size - 1", "wanted[...] = 0": ""},
            ),
            "padding_rows_count": (
                "Your rows of padding still count: only the column of the padding was set to 0, not these rows. Their ε is spread over real words, and the model "
                "learns what to say after the end.",
                {"wanted.masked_fill_(..., 0)": ""},
            ),
            "padding_rows_are_right": (
                "In your answer padding is a class to be guessed where it is the target. Such rows are only there to fill up the batch, and count nothing.",
                {"wanted = _": "wanted = _\nwanted[:, self.padding_idx] = 0", "wanted[...] = 0": "", "wanted.masked_fill_(..., 0)": ""},
            ),
            "nothing_left_without_a_graph": (
                "Where all rows are padding you return a fresh zero. Its value is right, but it hangs on nothing: `backward()` raises an error there, in the "
                "middle of a training run, instead of giving gradients of 0.",
                {"return _": "if (target == self.padding_idx).all():\n    return log_probs.new_zeros(())\nreturn _"},
            ),
            # --- the divergence
            "mean_over_everything": (
                "You take the mean over all rows and classes. The sum is wanted: the training loop divides it, by the number of real tokens.",
                {"reduction='sum'": "reduction='mean'"},
            ),
            "mean_over_rows": (
                "You divide by the number of rows. The sum is wanted: rows of padding should not dilute it, and the training loop divides by the number of real "
                "tokens.",
                {"reduction='sum'": "reduction='batchmean'"},
            ),
            "mean_over_real_rows": (
                "You divide by the number of real rows. That is a good idea, but the training loop will do it, for several batches together; here the sum is "
                "wanted.",
                {"3: _.to": "(_ / (target != self.padding_idx).sum()).to"},
            ),
            "one_loss_a_row": (
                "You return a loss for every row. Their sum is wanted, one number without any axis.",
                {"F.kl_div(wide, wanted, reduction='sum')": "F.kl_div(wide, wanted, reduction='none').sum(dim=-1)"},
            ),
            "with_an_axis": (
                "You return a tensor of shape (1,). The loss has no axis at all, as every sum of everything.",
                {"return _": "return _.reshape(1)"},
            ),
            "plain_number": (
                "You return a plain number. It knows no longer what it was computed from, so nothing can be learnt from it: return the tensor.",
                {"return _": "return _.item()"},
            ),
            "cross_entropy": (
                "Yours is the cross-entropy, −Σ q log p. The divergence also has the term Σ q log q, which is no more than a constant, and so has the same "
                "gradient, but is what brings the minimum down to 0.",
                {"return ...": "return -(wanted * wide).sum().to(log_probs.dtype)"},
            ),
            "entropy_added": (
                "The entropy of your target has the wrong sign: you add it to the cross-entropy instead of taking it off. The divergence is Σ q (log q − log p), "
                "and 0 where p equals q.",
                {"return ...": "return -(torch.xlogy(wanted, wanted) + wanted * wide).sum().to(log_probs.dtype)"},
            ),
            "log_of_zero": (
                "Your loss is NaN: somewhere the target is 0, log 0 is −∞, and 0 · (−∞) is no number. In the divergence such a term counts 0, and torch has "
                "functions that know it.",
                {"F.kl_div(wide, wanted, reduction='sum')": "(wanted * (wanted.log() - wide)).sum()"},
            ),
            "log_of_nearly_zero": (
                "You add a tiny number to the target before you take its log. That keeps NaN away, but every class is then off by that number, and float64 sees "
                "it. 0 · log 0 is to be exactly 0.",
                {"F.kl_div(wide, wanted, reduction='sum')": "(wanted * ((wanted + 1e-8).log() - wide)).sum()"},
            ),
            "probabilities_for_logs": (
                "`F.kl_div` takes its first argument for *log*-probabilities, and you give it probabilities. Nothing complains: numbers between 0 and 1 are just "
                "very strange logarithms.",
                {"3: wide": "wide.exp()"},
            ),
            "log_twice": (
                "You take the log of what is a log already. `log_probs` are log-probabilities, all of them negative, and the log of a negative number is NaN.",
                {"3: wide": "wide.log()"},
            ),
            "log_target": (
                "You tell `F.kl_div` that the target comes as logarithms. It does not: yours are probabilities. (What is asked first is the model's side, in logs; "
                "what second, the target, plain unless you say otherwise.)",
                {"F.kl_div(wide, wanted, reduction='sum')": "F.kl_div(wide, wanted, reduction='sum', log_target=True)"},
            ),
            "arguments_swapped": (
                "The arguments of `F.kl_div` have changed places. It wants the model's log-probabilities first and the target second, the other way round from how "
                "the divergence KL(q ‖ p) is written.",
                {"F.kl_div(wide, wanted, reduction='sum')": "F.kl_div(wanted, wide, reduction='sum')"},
            ),
            "clamped_probabilities": (
                "You go back to probabilities, keep them from falling below a tiny number, and take the log again. A model that is very sure and wrong is then "
                "punished no more than one that is fairly sure, and learns nothing from it. The log-probabilities were fine.",
                {"wide = _": "wide = _\nwide = wide.exp().clamp(min=1e-9).log()"},
            ),
            "there_and_back": (
                "You go from log-probabilities to probabilities and back. A log-probability of −1000 does not survive that: its exp is 0, and log 0 is −∞. Nothing "
                "here needs the probabilities themselves.",
                {"wide = _": "wide = _\nwide = wide.exp().log()"},
            ),
            "normalised_again": (
                "You normalise the log-probabilities once more. That changes no value, since they are normalised, and so only their own gradient shows it; but it "
                "is work over the whole vocabulary for nothing, and hides a model that forgot its log-softmax.",
                {"wide = _": "wide = _\nwide = wide.log_softmax(dim=-1)"},
            ),
            "detached": (
                "Your value is right, but nothing can be learnt from it: somewhere on the way the log-probabilities were cut off from their graph (`.detach()`, "
                "`.data`, `no_grad`). Only the target may be.",
                {"log_probs.to": "log_probs.detach().to"},
            ),
            # --- whose memory is it
            "target_written_over_the_inputs": (
                "You build the target in the memory of the log-probabilities themselves: `.data` is no copy. They are gone, and you compare the target with itself.",
                {"torch.full_like(wide, _)": "wide.data.fill_(_)"},
            ),
            "padding_zeroed_in_the_inputs": (
                "Your value is right, but the log-probabilities that you were given are not what they were, as where rows of padding are set to 0 *in them*. In "
                "float32 nothing copies them for you.",
                {"wide = _": "wide = _\nwide.data[target == self.padding_idx] = 0"},
            ),
            "flat_view": (
                "You take the log-probabilities for one long row in memory. They need not lie so: after a transposition `view` raises an error. Index by row and "
                "class, or use what does not care.",
                {"wide = _": "wide = _\nwide = wide.view(-1).view(-1, self.size)"},
            ),
            # --- what is kept between calls
            "running_total": (
                "Your module adds up the losses of all batches it has ever seen. Each call returns the loss of its own batch; what is to be added up is the "
                "training loop's business.",
                {
                    "self.smoothing = smoothing": "self.smoothing = smoothing\nself.total = 0.0",
                    "return _.to(log_probs.dtype)": "self.total = self.total + _\nreturn self.total.to(log_probs.dtype)",
                },
            ),
            "target_kept": (
                "You build the target distribution for the first batch and keep it. The next batch has other targets, and often another number of rows.",
                {
                    "self.smoothing = smoothing": "self.smoothing = smoothing\nself.wanted = None",
                    "return ...": "if self.wanted is None:\n    self.wanted = wanted\nreturn F.kl_div(wide, self.wanted, reduction='sum').to(log_probs.dtype)",
                },
            ),
            "only_in_training": (
                "You smooth in training mode only. A loss is no dropout: this one is smoothed always, and whoever wants an unsmoothed loss to report makes one "
                "with an ε of 0.",
                {
                    "wide = _": "wide = _\nsmoothing = self.smoothing if self.training else 0.0",
                    "self.smoothing / _": "smoothing / _",
                    "1 - self.smoothing": "1 - smoothing",
                },
            ),
            # --- dtypes
            "computed_in_halves": (
                "You compute in the dtype of the log-probabilities. In half precision a share of a large vocabulary is 0, or 1 − ε is 1: what is smoothed is lost. "
                "Compute in float32, and round at the end.",
                {"wide = ...": "wide = log_probs"},
            ),
            "computed_in_float32": (
                "You compute in float32 whatever comes in, so that float64 loses half its digits on the way. Only what is narrower should be widened.",
                {"wide = ...": "wide = log_probs.float()"},
            ),
            "target_in_float32": (
                "You make the target in float32 whatever the log-probabilities are, and return what comes of it: in half precision a loss of another dtype than "
                "the inputs', in float64 one in which half of the digits are lost. Make it in the inputs' dtype, or wider, and turn the sum back.",
                {"torch.full_like(wide, _)": "torch.full(wide.shape, _, device=wide.device, dtype=torch.float32)", "_.to(log_probs.dtype)": "_"},
            ),
            "left_wide": (
                "Your loss is float32 for log-probabilities in half precision. Widen them to compute, but return what came in.",
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
