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
                "You limit the exponent of the decay from below, so a past that should be forgotten at once leaves a trace. exp(Δ A) must be able to reach 0.",
                {"(step * a).exp()": "(step * a).clamp(min=-10).exp()"},
            ),
            # --- the scan: from continuous to discrete
            "zero_order_hold_for_b": (
                "You discretize B as the paper prints it (eq. 4). The published code uses Δ B instead, which is the same to first order, and published "
                "weights were trained with it.",
                {"step * b[:, t].unsqueeze(1)": "((step * a).exp() - 1) / a * b[:, t].unsqueeze(1)"},
            ),
            "written_without_the_step": (
                "You write B u, without the step. Δ decides both how much of the past decays and how much of the present is written. A token with a step of 0 "
                "should leave no trace.",
                {"step * b[:, t].unsqueeze(1)": "b[:, t].unsqueeze(1)"},
            ),
            "decay_without_exponential": (
                "You multiply the state by Δ A itself. That is a negative number, so the state changes its sign with every token. The decay is the "
                "exponential of Δ A, between 0 and 1.",
                {"(step * a).exp()": "step * a"},
            ),
            "decay_by_euler": (
                "You multiply the state by 1 + Δ A. That is exp(Δ A) to first order, but it is below −1 as soon as Δ A is below −2, and the state explodes. "
                "Take the exponential.",
                {"(step * a).exp()": "1 + step * a"},
            ),
            "a_taken_as_positive": (
                "You put a minus sign before A. `a` is already negative: with another minus sign, the state grows instead of decaying.",
                {"step * a": "-step * a"},
            ),
            # --- the scan: order
            "read_before_writing": (
                "You compute y_t from the state before token t is written. Compute it from h_t, which contains token t.",
                {"y = h @ c[:, t].unsqueeze(-1)": "", "written = _": "written = _\ny = h @ c[:, t].unsqueeze(-1)"},
            ),
            "written_before_decaying": (
                "You write the token first, and then let everything decay, including the token. Only the earlier state should decay by this token's step.",
                {"_ * h + written": "_ * (h + written)"},
            ),
            # --- the scan: what is read, and what passes by
            "nothing_passes_by": (
                "You leave out D u. Each channel also adds its input directly to the output, multiplied by its own weight.",
                {"_ + d * x[:, t : t + 1]": "_"},
            ),
            # --- the scan: numbers
            "divided_by_vanishing_products": (
                "Your scan goes wrong where decays vanish. This happens if you compute all states at once, as a sum of the written values divided by the "
                "product of all decays so far. That is right on paper, but the product becomes 0 sooner or later. You may multiply by such a product, but "
                "never divide by it.",
                DIVIDING,
            ),
            "halves_not_widened": (
                "You compute in half precision. The state is a sum over the whole past, and with three digits, adding a new token soon changes nothing. "
                "Upcast to float32, and cast the result back.",
                {"wide = ...": "wide = u.dtype"},
            ),
            "result_stays_wide": (
                "Your result is float32 for inputs in half precision. Compute in float32, but return the dtype of the input.",
                {"_.to(u.dtype)": "_"},
            ),
            "nothing_to_join": (
                "Without tokens you concatenate an empty list, which raises an error. A text can be empty: the result is then `(B, 0, D)`.",
                {"x[:, :0]": ""},
            ),
            "decay_without_a_gradient": (
                "Your outputs are right, but no gradient flows through the decay. A would never be learned, and Δ would not learn when to forget.",
                {"(step * a).exp": "(step * a).exp().detach"},
            ),
        },
    ),
    *of(
        "Mamba",
        {
            "projections_start_by_hand": (
                "You initialize the projections yourself. Only `a_log`, `d` and `dt_proj` have a special initialization; everything else keeps PyTorch's "
                "default.",
                {"self.d = _": "self.d = _\nfor layer in (self.in_proj, self.x_proj, self.out_proj):\n    nn.init.normal_(layer.weight, std=0.02)"},
            ),
            # --- the layer: what it is made of
            "in_proj_with_a_bias": (
                "Your `in_proj` has a bias, the default of `nn.Linear`. Here only the convolution and `dt_proj` have biases.",
                {"nn.Linear(_, 2 * d_inner, bias=False)": "nn.Linear(_, 2 * d_inner)"},
            ),
            "published_names": (
                "You call two of the parameters `A_log` and `D`, as the published code does. Here they are called `a_log` and `d`, and weights are loaded by "
                "name.",
                {"self.a_log = _": "self.A_log = _", "self.d = _": "self.D = _", "self.a_log": "self.A_log", "self.d": "self.D"},
            ),
            "state_in_the_state_dict": (
                "Your layer stores its state as a buffer, and saves it with its weights. The state belongs to one text, so keep it in the caller's `state`.",
                {"self.d = _": "self.d = _\nself.register_buffer('h', None)", "return _": "self.h = state.h\nreturn _"},
            ),
            # --- the layer: how it starts
            "logarithm_forgotten": (
                "Your `a_log` is initialized to 1, 2, …, N. It should hold the logarithms of these numbers: with −exp(a_log), your A starts at −e, −e², …, "
                "and the state forgets too fast.",
                {"rates.log()": "rates"},
            ),
            "counted_from_zero": (
                "Your A starts at 0, −1, …, because you count from 0. The logarithm of 0 is −∞, and the first entry of the state would never decay. A should "
                "start at −1, −2, …, −N.",
                {"rates = ...": "rates = torch.arange(0.0, d_state)"},
            ),
            "bias_as_torch_starts_it": (
                "With the initial bias of your `dt_proj`, steps start outside the range 0.001 to 0.1, as with PyTorch's default. Near a bias of 0, all steps "
                "are near 0.69, and the state forgets within a few tokens.",
                {"self.dt_proj.bias = ...": "pass"},
            ),
            # --- the layer: the convolution
            "convolution_sees_what_comes": (
                "Your convolution looks ahead: you add zeros after the text instead of before it. A model trained this way cannot generate, because it needs "
                "the next tokens.",
                {"[_, x]": "[x, _]"},
            ),
            "convolution_not_cut": (
                "Your convolution returns more outputs than there are tokens, because its padding adds zeros at both ends. Published code cuts off the extra "
                "outputs; here the window takes the place of the padding.",
                {
                    "nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner)": "nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner, padding=config.d_conv - 1)",
                    "seen.transpose(1, 2)": "seen[:, self.config.d_conv - 1 :].transpose(1, 2)",
                },
            ),
            "no_silu_after_the_convolution": (
                "Your layer has no SiLU between the convolution and the scan. Without the SiLU, `in_proj` and the convolution are a single linear map, from "
                "whose output B, C and Δ are computed, too.",
                {"x = F.silu(x)": ""},
            ),
            # --- the layer: what makes the scan selective
            "gate_first": (
                "You use the first half of `in_proj` as the gate. The first half is x, the input of the scan; the second half is the gate z.",
                {"x, z = _": "z, x = _"},
            ),
            "steps_not_made_positive": (
                "Your steps can be negative. With a negative step the state grows, and the token is written with the wrong sign: the softplus is missing.",
                {"F.softplus(_)": "_"},
            ),
            "bias_after_the_softplus": (
                "You add the bias of `dt_proj` after the softplus. Add it before: the bias then shifts the initial step, and the step stays positive.",
                {"step = ...": "step = r @ self.dt_proj.weight.T", "F.softplus(step)": "F.softplus(step) + self.dt_proj.bias"},
            ),
            "a_log_taken_for_a": (
                "You pass −a_log to the scan as A. The parameter is a logarithm: A = −exp(a_log), which is negative whatever a_log becomes.",
                {"self.a_log.to(wide).exp()": "self.a_log"},
            ),
            # --- the layer: the gate
            "gate_without_silu": (
                "You multiply by z itself. Apply SiLU to the gate first.",
                {"F.silu(z)": "z"},
            ),
            "shortcut_inside": (
                "You add the input to the output. The residual connection is outside this layer, in the block that contains it, together with the norm.",
                {"if state is None:\n    _": "shortcut = x\nif state is None:\n    _\nshortcut = x", "return _": "return shortcut + _"},
            ),
            # --- the layer: a text in pieces
            "window_of_this_chunk_alone": (
                "You keep only the last inputs of this chunk. A chunk can be shorter than the window: the window must then still contain some of the earlier "
                "inputs.",
                {"seen[:, x.size(1) :]": "x[:, -(self.config.d_conv - 1) :]"},
            ),
            "window_not_kept": (
                "You do not keep the convolution's last inputs. For the tokens that follow, the convolution sees zeros in place of the earlier text.",
                {"state.window = ...": "pass"},
            ),
            "state_for_single_tokens_only": (
                "You continue from the state only for a single token, and scan longer chunks from 0. Every chunk continues the text before it.",
                {
                    "parallel_scan(u=x, delta=delta, a=a, b=b, c=c, d=self.d, h=h)": "parallel_scan(u=x, delta=delta, a=a, b=b, c=c, d=self.d, h=h if x.size(1) == 1 else None)"
                },
            ),
            "history_kept": (
                "Your state keeps its computation graph: gradients flow back into earlier chunks, and the graph grows with each decoding step. Use `detach` "
                "on what you store.",
                {"2: _.detach()": "_", "h.detach()": "h"},
            ),
            "h_rounded": (
                "You store h in half precision. It is a sum over the whole past: rounded to three digits at every token, it soon no longer changes.",
                {"h.detach().clone()": "h.detach().to(x.dtype)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "selective_scan",
        {
            "state_made_on_the_cpu": (
                "Your state starts on the CPU, but the inputs can be on a GPU. `x.new_zeros` creates it on their device.",
                {"x.new_zeros(x.size(0), *a.shape)": "torch.zeros(x.size(0), *a.shape, dtype=wide)"},
            ),
        },
    ),
    *on_devices(
        "Mamba",
        {
            "state_stays_where_it_was_made": (
                "The state from which your scan continues is on the CPU, where new states are created, but the inputs can be on a GPU. Move it to the device "
                "of `x`.",
                {"MambaState(self.config, len(x), device=x.device, dtype=x.dtype)": "MambaState(self.config, len(x))", "state.h.to(x.device)": "state.h"},
            ),
            "window_stays_where_it_was_made": (
                "The window that you put before the first inputs of the convolution is on the CPU, where new states are created, but the inputs can be on a "
                "GPU. Move it to the device of `x`.",
                {
                    "MambaState(self.config, len(x), device=x.device, dtype=x.dtype)": "MambaState(self.config, len(x))",
                    "state.window.to(x)": "state.window.to(x.dtype)",
                },
            ),
        },
    ),
]
