"""Day 37: what goes wrong with a selective state: discretization, order, the gate, causality, what is kept."""

from course.judging.misconceptions import of, on_devices

DIVIDING = """
def selective_scan(u, delta, a, b, c, d):
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, a, b, c, d = (one.to(wide) for one in (u, delta, a, b, c, d))
    decay = (delta.cumsum(dim=1).unsqueeze(-1) * a).exp()
    written = (delta * x).unsqueeze(-1) * b.unsqueeze(2)
    h = decay * (written / decay).cumsum(dim=1)
    return ((h * c.unsqueeze(2)).sum(dim=-1) + d * x).to(u.dtype)
"""
MISCONCEPTIONS = [
    *of(
        "selective_scan",
        {
            "decay_cut_off": (
                "You cut the exponent of the decay off from below. A past that should be forgotten at once then leaves a trace: exp(Δ A) may be 0.",
                {"(step * a).exp()": "(step * a).clamp(min=-10).exp()"},
            ),
            # --- the scan: from continuous to discrete
            "zero_order_hold_for_b": (
                "You discretize B as the paper prints it (eq. 4). Its published code does not: it takes Δ B, which is the same to first order. Published weights "
                "were trained with that.",
                {"step * b[:, t].unsqueeze(1)": "((step * a).exp() - 1) / a * b[:, t].unsqueeze(1)"},
            ),
            "written_without_the_step": (
                "You write B u, without the step. Δ decides on both: how much of the past goes, and how much of the present comes in. A token with a step of 0 is "
                "to leave no trace.",
                {"step * b[:, t].unsqueeze(1)": "b[:, t].unsqueeze(1)"},
            ),
            "decay_without_exponential": (
                "You multiply the state by Δ A itself. That is a negative number, and the state would change its sign with every token. The decay is its "
                "exponential, between 0 and 1.",
                {"(step * a).exp()": "step * a"},
            ),
            "decay_by_euler": (
                "You multiply the state by 1 + Δ A. That is exp(Δ A) to first order, and it is below −1 as soon as Δ A is below −2: the state explodes. Take the "
                "exponential.",
                {"(step * a).exp()": "1 + step * a"},
            ),
            "a_taken_as_positive": (
                "You put a minus before A. `a` is given as it is used, negative already: with another minus the state grows instead of decaying.",
                {"step * a": "-step * a"},
            ),
            # --- the scan: order
            "read_before_writing": (
                "You read the state before the token is in it. y_t is read from h_t, which the token t has been written into.",
                {"y = h @ c[:, t].unsqueeze(-1)": "", "written = _": "written = _\ny = h @ c[:, t].unsqueeze(-1)"},
            ),
            "written_before_decaying": (
                "You write the token first, and then let everything decay, the token too. Only the earlier state decays by this token's step.",
                {"_ * h + written": "_ * (h + written)"},
            ),
            # --- the scan: what is read, and what passes by
            "nothing_passes_by": (
                "You leave out D u. Each channel also hands its input on directly, by a weight of its own.",
                {"_ + d * x[:, t : t + 1]": "_"},
            ),
            # --- the scan: numbers
            "divided_by_vanishing_products": (
                "Your scan goes wrong where decays vanish, as it does where all states are computed at once, from a sum of what was written divided by the "
                "product of all decays so far. That is right on paper, but sooner or later the product is 0. A product may be multiplied by, and never "
                "divided by.",
                DIVIDING,
            ),
            "halves_not_widened": (
                "You compute in half precision. The state is a sum over the whole past, and three digits soon take in nothing any more: widen to float32, and go "
                "back at the end.",
                {"wide = ...": "wide = u.dtype"},
            ),
            "result_stays_wide": (
                "Your result is float32 where the input is of half precision. Compute in float32, and give back the input's dtype.",
                {"_.to(u.dtype)": "_"},
            ),
            "nothing_to_join": (
                "Without any tokens you join an empty list, and torch does not know of what shape that is. A text may be empty: the result is `(B, 0, D)`.",
                {"x[:, :0]": ""},
            ),
            "decay_without_a_gradient": (
                "Your outputs are right, but no gradient goes through the decay: A would never be learned, and Δ not when to forget.",
                {"(step * a).exp": "(step * a).exp().detach"},
            ),
        },
    ),
    *of(
        "Mamba",
        {
            "projections_start_by_hand": (
                "You initialize the projections yourself. Only `a_log`, `d` and `dt_proj` have a start of their own; all else starts as torch starts it.",
                {"self.d = _": "self.d = _\nfor layer in (self.in_proj, self.x_proj, self.out_proj):\n    nn.init.normal_(layer.weight, std=0.02)"},
            ),
            # --- the layer: what it is made of
            "in_proj_with_a_bias": (
                "Your `in_proj` has a bias, as `nn.Linear` has one by default. Only the convolution and `dt_proj` have biases here.",
                {"nn.Linear(_, 2 * d_inner, bias=False)": "nn.Linear(_, 2 * d_inner)"},
            ),
            "published_names": (
                "You call two of the parameters `A_log` and `D`, as the published code does. Here they are `a_log` and `d`: weights find their places by name.",
                {"self.a_log = _": "self.A_log = _", "self.d = _": "self.D = _", "self.a_log": "self.A_log", "self.d": "self.D"},
            ),
            "state_in_the_state_dict": (
                "Your layer keeps its state as a buffer, and saves it with its weights. What was read belongs to a text, and into the caller's `state`.",
                {"self.d = _": "self.d = _\nself.register_buffer('h', None)", "return _": "self.h = state.h\nreturn _"},
            ),
            # --- the layer: how it starts
            "logarithm_forgotten": (
                "Your `a_log` starts at 1, 2, …, N. It holds the logarithms of these: with −exp(a_log) A would start at −e, −e², …, and forget everything at once.",
                {"rates.log()": "rates"},
            ),
            "counted_from_zero": (
                "Your A starts at 0, −1, …: you count from 0. The logarithm of 0 is −∞, and the first number of state would never decay. A = −1, −2, …, −N.",
                {"rates = ...": "rates = torch.arange(0.0, d_state)"},
            ),
            "bias_as_torch_starts_it": (
                "The bias of your `dt_proj` gives initial steps outside of 0.001 to 0.1, as torch's own bias does: around 0 all steps are near 0.69, and a "
                "state forgets within some tokens.",
                {"self.dt_proj.bias = ...": "pass"},
            ),
            # --- the layer: the convolution
            "convolution_sees_what_comes": (
                "Your convolution looks ahead: you fill up with zeros behind the text instead of before it. What is trained so cannot produce a text, since it "
                "needs the next tokens.",
                {"[_, x]": "[x, _]"},
            ),
            "convolution_not_cut": (
                "Your convolution returns more outputs than there are tokens: its padding adds zeros at both ends. Published code cuts the extra ones off at the "
                "end; here the window takes the place of the padding.",
                {
                    "nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner)": "nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner, padding=config.d_conv - 1)",
                    "seen.transpose(1, 2)": "seen[:, self.config.d_conv - 1 :].transpose(1, 2)",
                },
            ),
            "no_silu_after_the_convolution": (
                "There is no SiLU between convolution and scan in your layer. Without it the two are one linear thing; B, C and Δ are made from what comes after "
                "it, too.",
                {"x = F.silu(x)": ""},
            ),
            # --- the layer: what makes the scan selective
            "gate_first": (
                "You take the first half of `in_proj` for the gate. The first half is x, which is scanned; the second is the gate z.",
                {"x, z = _": "z, x = _"},
            ),
            "steps_not_made_positive": (
                "Your steps may be negative. With a negative step the state grows, and what the token brings enters with its sign turned: the softplus is missing.",
                {"F.softplus(_)": "_"},
            ),
            "bias_after_the_softplus": (
                "You add the bias of `dt_proj` after the softplus. It comes before it: there it shifts where a step starts, and the step stays positive.",
                {"step = ...": "step = r @ self.dt_proj.weight.T", "F.softplus(step)": "F.softplus(step) + self.dt_proj.bias"},
            ),
            "a_log_taken_for_a": (
                "You hand −a_log to the scan as A. The parameter is a logarithm: A = −exp(a_log), negative whatever a_log becomes.",
                {"self.a_log.to(wide).exp()": "self.a_log"},
            ),
            # --- the layer: the gate
            "gate_without_silu": (
                "You multiply by z as it is. The gate goes through SiLU first.",
                {"F.silu(z)": "z"},
            ),
            "shortcut_inside": (
                "You add the input to the output. The residual connection is around the layer, in the block that holds it, together with the norm.",
                {"if state is None:\n    _": "shortcut = x\nif state is None:\n    _\nshortcut = x", "return _": "return shortcut + _"},
            ),
            # --- the layer: a text in pieces
            "window_of_this_chunk_alone": (
                "You keep the last inputs of this chunk alone. A chunk may be shorter than the window: then it still holds some of the earlier inputs.",
                {"seen[:, x.size(1) :]": "x[:, -(self.config.d_conv - 1) :]"},
            ),
            "window_not_kept": (
                "You do not keep the convolution's last inputs. For the tokens that follow it sees zeros where the text was.",
                {"state.window = ...": "pass"},
            ),
            "state_for_single_tokens_only": (
                "You continue from the state only for a single token, and scan longer chunks from 0. Any chunk follows what was read before it.",
                {
                    "parallel_scan(u=x, delta=delta, a=a, b=b, c=c, d=self.d, h=h)": "parallel_scan(u=x, delta=delta, a=a, b=b, c=c, d=self.d, h=h if x.size(1) == 1 else None)"
                },
            ),
            "history_kept": (
                "Your state holds the history of its numbers: gradients go back into earlier chunks, and with each step of decoding the graph grows. `detach` what "
                "you keep.",
                {"2: _.detach()": "_", "h.detach()": "h"},
            ),
            "h_rounded": (
                "You keep h in half precision. It is a sum over the whole past: rounded to three digits at every token, it soon takes in nothing any more.",
                {"h.detach().clone()": "h.detach().to(x.dtype)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "selective_scan",
        {
            "state_made_on_the_cpu": (
                "Your state begins on the CPU, and the inputs may be on a GPU. `x.new_zeros` makes it where they are.",
                {"x.new_zeros(x.size(0), *a.shape)": "torch.zeros(x.size(0), *a.shape, dtype=wide)"},
            ),
        },
    ),
    *on_devices(
        "Mamba",
        {
            "state_stays_where_it_was_made": (
                "The state that you scan on from is on the CPU, as a new one is, and the inputs may be on a GPU. It has to be where `x` is.",
                {"MambaState(self.config, len(x), device=x.device, dtype=x.dtype)": "MambaState(self.config, len(x))", "state.h.to(x.device)": "state.h"},
            ),
            "window_stays_where_it_was_made": (
                "What you put before the first inputs of the convolution is on the CPU, as the window of a new state is, and the inputs may be on a GPU. It has to be where `x` is.",
                {
                    "MambaState(self.config, len(x), device=x.device, dtype=x.dtype)": "MambaState(self.config, len(x))",
                    "state.window.to(x)": "state.window.to(x.dtype)",
                },
            ),
        },
    ),
]
