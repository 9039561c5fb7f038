"""What torch does inside a `with`: which operations there are, and how large their results."""

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Results(TorchDispatchMode):
    """Watches the results of all operations, those of backward passes too.

    Attributes:
        largest: how many numbers the largest result has.
        held: how many numbers the largest storage of a result holds.
        written: how many numbers all results have together.
        operations: the names of the operations.
    """

    def __init__(self):
        super().__init__()
        self.largest = self.held = self.written = 0
        self.operations = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.operations.add(func.overloadpacket._qualified_op_name.removeprefix("aten::"))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.numel())
                self.held = max(
                    self.held, tensor.untyped_storage().nbytes() // tensor.element_size()
                )
                self.written += tensor.numel()
        return out
