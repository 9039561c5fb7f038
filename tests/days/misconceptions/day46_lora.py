"""Day 46: which factor is 0, what the scale is, what is frozen, which layers, and what a merged layer is."""

from course.judging.misconceptions import of, on_devices

SUM = "F.linear(x, self.weight, self.bias) + self.scale * update"
CONDITION = 'isinstance(layer, nn.Linear) and name.rpartition(".")[2] in names'
MERGED = "layer.weight + layer.scale * layer.b @ layer.a"
MISCONCEPTIONS = [
    *of(
        "LoRALinear",
        {
            # --- initialization
            "both_zero": (
                "Both your factors are 0 at initialization. The gradient of each factor contains the other factor, so both gradients are 0, and nothing is "
                "ever learned.",
                {"self.a = nn.Parameter(a / _)": "self.a = nn.Parameter(a * 0)"},
            ),
            "a_is_zero": (
                "Your A is 0, and your B is drawn. The product is 0 this way, too, but here B should be 0, and A should be drawn.",
                {
                    "self.a = nn.Parameter(a / _)": "self.a = nn.Parameter(a * 0)",
                    "linear.weight.new_zeros(d_out, rank)": "torch.randn(d_out, rank, dtype=a.dtype, device=a.device)",
                },
            ),
            "both_random": (
                "You draw both factors at random, so the update is not 0 at initialization: training begins with a damaged model.",
                {"linear.weight.new_zeros(d_out, rank)": "torch.randn(d_out, rank, dtype=a.dtype, device=a.device) / d_out**0.5"},
            ),
            "a_too_large": (
                "The entries of your A have the wrong size. Their variance is 1 / d_in, so that A x is about as large as x.",
                {"nn.Parameter(a / _)": "nn.Parameter(a)"},
            ),
            "a_too_small": (
                "The entries of your A are too small. Their variance is 1 / d_in, so their standard deviation is 1 / √d_in, and A x is about as large as x.",
                {"nn.Parameter(a / _)": "nn.Parameter(a / d_in)"},
            ),
            # --- the scale
            "not_scaled": (
                "You add B A x without a factor. Multiply the update by α / r.",
                {"self.scale * update": "update"},
            ),
            "alpha_alone": (
                "You multiply the update by α, but do not divide it by the rank. The update is a sum of r terms, so a higher rank then needs a lower "
                "learning rate.",
                {"alpha / rank": "alpha"},
            ),
            "root_of_rank": (
                "You divide α by √r. That is rank-stabilized LoRA (Kalajdzievski 2023); LoRA divides by r.",
                {"alpha / rank": "alpha / rank**0.5"},
            ),
            "scale_inverted": (
                "Your scale is r / α. It should be α / r.",
                {"alpha / rank": "rank / alpha"},
            ),
            "sum_scaled": (
                "You scale the entire output. The factor α / r belongs to the update alone; the layer's own output stays as it is.",
                {SUM: "self.scale * (F.linear(x, self.weight, self.bias) + update)"},
            ),
            "default_alpha_is_rank": (
                "If no α is given, your scale is 1. α should be 16 by default, for every rank.",
                {"alpha: _ = 16.0": "alpha: _ = None", "alpha / rank": "1.0 if alpha is None else alpha / rank"},
            ),
            # --- the layer itself
            "layer_forgotten": (
                "Your output is only the update. Add the update to the output of the layer.",
                {SUM: "self.scale * update"},
            ),
            "no_gradient_through_the_weight": (
                "No gradient reaches the input through the frozen weight. The weight needs no gradient of its own, but the updates of the layers below need the "
                "one that passes through it.",
                {SUM: "F.linear(x, self.weight, self.bias).detach() + self.scale * update"},
            ),
            "product_computed": (
                "You compute the product B A, which is as large as the weight. The output is the same if you apply A first, whose result has only r numbers for each token.",
                {SUM: "F.linear(x, self.weight + self.scale * self.b @ self.a, self.bias)"},
            ),
            "bias_forgotten": (
                "Your output lacks the layer's bias.",
                {SUM: "F.linear(x, self.weight) + self.scale * update"},
            ),
            "weight_not_frozen": (
                "The layer's weight still requires a gradient. So it is trained as well, and you still need memory for its gradient and for its optimizer "
                "state.",
                {"linear.weight.requires_grad_(...)": "linear.weight"},
            ),
            "bias_not_frozen": (
                "The layer's bias still requires a gradient. Freeze weight and bias, so that only A and B are trained.",
                {"linear.bias.requires_grad_(...)": "linear.bias"},
            ),
            "weight_copied": (
                "You copy the layer's weight. The copy takes as much memory as the layer. Use the layer's own parameter instead.",
                {"linear.weight.requires_grad_(...)": "nn.Parameter(linear.weight.detach().clone(), requires_grad=False)"},
            ),
            "always_float32": (
                "Your factors are always float32. They should have the dtype of the layer's weight.",
                {"dtype=linear.weight.dtype": "dtype=torch.float32", "linear.weight.new_zeros(d_out, rank)": "torch.zeros(d_out, rank, device=a.device)"},
            ),
        },
    ),
    *on_devices(
        "LoRALinear",
        {
            "updates_on_the_cpu": (
                "Your factors are on the CPU, but the layer is not. Create them on the device of the layer's weight.",
                {"device=linear.weight.device": "device='cpu'", "linear.weight.new_zeros(d_out, rank)": "torch.zeros(d_out, rank, dtype=a.dtype)"},
            ),
        },
    ),
    *of(
        "add_lora",
        {
            "rest_trained": (
                "The layers without an update are still trained. Freeze the entire model: embeddings, norms and all other layers.",
                {"model.requires_grad_(...)": ""},
            ),
            "all_frozen": (
                "You freeze the model after adding the updates, so the updates are frozen as well. Nothing is left to train.",
                {
                    "model.requires_grad_(...)": "",
                    "2: for name, layer in updated.items():\n    _": "for name, layer in updated.items():\n    _\nmodel.requires_grad_(False)",
                },
            ),
            "every_linear_layer": (
                "You add an update to every linear layer. Only layers with one of the given names should get an update.",
                {CONDITION: "isinstance(layer, nn.Linear)"},
            ),
            "part_of_a_name": (
                "You look for the names anywhere in a layer's name, so `w_q` also matches `w_qk`. Compare the entire last part.",
                {CONDITION: "isinstance(layer, nn.Linear) and any(one in name for one in names)"},
            ),
            "end_of_a_name": (
                "You compare only the end of a layer's name, so `w_q` also matches `new_w_q`. Compare the entire last part.",
                {CONDITION: "isinstance(layer, nn.Linear) and name.endswith(tuple(names))"},
            ),
            "inside_blocks_only": (
                "You miss the layers that are the model's own attributes, such as a head. The names of these layers contain no dot.",
                {CONDITION: "isinstance(layer, nn.Linear) and name.endswith(tuple('.' + one for one in names))"},
            ),
            "own_children_only": (
                "You look at the model's own children only. Layers are nested: most of them are in blocks.",
                {"1: model.named_modules()": "model.named_children()"},
            ),
            "first_layer_only": (
                "You add an update to only one layer of each name. All layers with that name should get an update, in every block.",
                {
                    "if not chosen:\n    _": "chosen = {name.rpartition('.')[2]: name for name in reversed(chosen)}\nchosen = {name: model.get_submodule(name) for name in chosen.values()}"
                },
            ),
            "alpha_not_passed": (
                "You do not pass α on to the layers, so they use the default, 16.",
                {"LoRALinear(layer, rank, alpha)": "LoRALinear(layer, rank)"},
            ),
            "copy_changed": (
                "You change a copy of the model. The caller's model has no updates: change it in place.",
                {"model.requires_grad_(...)": "import copy\nmodel = copy.deepcopy(model).requires_grad_(False)"},
            ),
        },
    ),
    *of(
        "merge_lora",
        {
            "merged_without_scale": (
                "You add B A without the factor α / r.",
                {MERGED: "layer.weight + layer.b @ layer.a"},
            ),
            "scaled_twice": (
                "You multiply the sum of weight and update by α / r. The factor belongs only to B A.",
                {MERGED: "layer.scale * (layer.weight + layer.b @ layer.a)"},
            ),
            "update_alone": (
                "Your merged weight is only the update. It should be the sum of the weight and the update.",
                {MERGED: "layer.scale * layer.b @ layer.a"},
            ),
            "subtracted": (
                "You subtract the update. Subtracting removes an update that has been merged.",
                {MERGED: "layer.weight - layer.scale * layer.b @ layer.a"},
            ),
            "not_merged": (
                "Your layers are plain again, but with the weights from before: the update is lost.",
                {MERGED: "layer.weight.clone()"},
            ),
            "bias_lost": (
                "Your merged layers have no bias. Keep the bias of the original layer.",
                {"bias=layer.bias is not None": "bias=False", "plain.weight, plain.bias = _, layer.bias": "plain.weight = nn.Parameter(weight)"},
            ),
            "update_left": (
                "You merge the weights, but keep the layers with the updates. Each update now counts twice.",
                {"plain = ...": "layer.weight = nn.Parameter(weight)", "plain.weight, plain.bias = ...": "", "model.set_submodule(name, plain)": ""},
            ),
            "only_the_models_own_children": (
                "You look at the model's own children only. Layers are nested: most of them are in blocks.",
                {"model.named_modules()": "model.named_children()"},
            ),
            "weight_overwritten": (
                "You add the update to the weight in place. A model that shares this weight changes, too.",
                {MERGED: "layer.weight.add_(layer.scale * layer.b @ layer.a)"},
            ),
            "copy_merged": (
                "You merge a copy of the model. The caller's model still has its updates: change it in place.",
                {
                    "updated = ...": "import copy\nmodel = copy.deepcopy(model)\nupdated = {name: layer for name, layer in model.named_modules() if isinstance(layer, LoRALinear)}"
                },
            ),
        },
    ),
]
