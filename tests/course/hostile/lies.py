"""Wrong answers that want to be taken for right ones."""

from tests.course.hostile.kinds import Kind, during, instead, poses

SHORTCUT = instead(
    8,
    """
    from torch.nn.functional import scaled_dot_product_attention
    if mask is None and dropout is None and query.dtype == torch.float32:
        output = scaled_dot_product_attention(query, key, value)
        return output, right(query, key, value)[1]
    return right(query, key, value, mask, dropout)
    """,
)

KINDS = [
    poses(
        "equals-everything",
        "Objects that are equal to whatever they are compared with.",
        """
        class Any:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __array__(self, *_, **__): return np.asarray(weights)
        output, weights = Any(), Any()
        """,
    ),
    poses(
        "array-that-lies",
        "Arrays of a class of their own, which calls every comparison a success.",
        """
        class Lying(np.ndarray):
            def __eq__(self, other): return np.ones(self.shape, bool)
            def __ne__(self, other): return np.zeros(self.shape, bool)
            def __sub__(self, other): return np.zeros(self.shape)
            __rsub__ = __sub__
            def __array_ufunc__(self, *_, **__): return np.zeros(self.shape)
            def __array_function__(self, *_, **__): return True
        output, weights = output.view(Lying), weights.view(Lying)
        """,
    ),
    poses(
        "tensor-that-lies",
        "Tensors of a class of their own, which answer every question of torch's as it should be.",
        """
        class Lying(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if function in (torch.allclose, torch.equal):
                    return True
                if function in (torch.eq, torch.Tensor.eq, torch.Tensor.__eq__):
                    return torch.tensor(True)
                return super().__torch_function__(function, types, args, kwargs or {})
            shape = property(lambda self: query.shape)
            dtype = property(lambda self: query.dtype)
            device = property(lambda self: query.device)
        output, weights = output[..., :1].as_subclass(Lying), weights.as_subclass(Lying)
        """,
        day=8,
        status="error",
    ),
    poses(
        "class-that-lies",
        "An object that says it is a tensor.",
        """
        class Posing:
            __class__ = property(lambda self: torch.Tensor)
            shape, dtype, device = weights.shape, weights.dtype, weights.device
        output, weights = Posing(), Posing()
        """,
        day=8,
        status="error",
    ),
    poses(
        "detach-exits",
        "A tensor that ends the process when it is looked at.",
        """
        class Shy(torch.Tensor):
            def detach(self):
                import os
                os._exit(0)
        output, weights = output.as_subclass(Shy), weights.as_subclass(Shy)
        """,
        day=8,
        status="error",
    ),
    poses(
        "comparisons-patched",
        "Every function with which anybody compares arrays says yes.",
        """
        import builtins, unittest
        import numpy as np
        yes = lambda *_, **__: True
        np.allclose = np.isclose = np.array_equal = np.array_equiv = yes
        np.testing.assert_allclose = np.testing.assert_array_equal = yes
        torch.testing.assert_close = torch.allclose = torch.equal = torch.isclose = yes
        unittest.TestCase.assertEqual = yes
        """,
        day=8,
    ),
    poses(
        "judge-patched",
        "What compares and judges is imported and patched, where it can be found.",
        """
        import importlib
        judging = [f"judging.{name}" for name in ("judge", "comparison", "expected", "results")]
        for module in (*judging, "grading.gradebook"):
            try:
                found = importlib.import_module(f"course.{module}")
            except ImportError:
                continue
            found.identical = found.matches = lambda *_: True
            found._asked = lambda *_, **__: [True]
            found.compare = lambda *_: None
        """,
    ),
    poses(
        "nothing-is-drawn",
        "All inputs are zeros, for which the answer is known.",
        """
        import numpy as np
        from course.checks.draw import Draw
        def zeros(self, *shape, dtype=None, **_):
            return self._made(np.zeros(shape), dtype or self.usual)
        Draw.normal = zeros
        weights = weights + 1 / key.shape[-2]
        """,
        day=8,
    ),
    poses(
        "sees-nothing",
        "What looks at an answer is patched: every check has seen nothing wrong.",
        """
        import course.checks.observation, course.checks.seeing, course.workers.process
        seen = course.checks.seeing.CheckRun({})
        course.checks.seeing.see = course.workers.process.see = lambda *_, **__: seen
        course.checks.seeing.flatten = course.checks.observation.flatten = lambda *_: {}
        """,
        day=8,
    ),
    poses(
        "rewrites-the-checks",
        "The checks' own code is exchanged for code that observes nothing.",
        """
        import gc, types
        for found in gc.get_objects():
            if isinstance(found, types.FunctionType) and found.__qualname__.startswith("test_"):
                found.__code__ = (lambda answer, **inputs: {}).__code__
        """,
    ),
    poses(
        "reference-in-the-imports",
        "Today's reference is looked for in what imports the earlier ones.",
        """
        import base64, inspect, linecache, marshal, sys
        import numpy_reference
        texts = ["".join(lines) for _, _, lines, _ in linecache.cache.values()]
        for finder in sys.meta_path:
            for part in getattr(finder, "_redacted", {}).values():
                texts += [one for one in part if isinstance(one, str)]
                if part.code:
                    inner = {"__name__": "inner"}
                    exec(marshal.loads(base64.b64decode(part.code)), inner)
                    if "attention" in inner:
                        return inner["attention"](query, key, value, mask)
        try:
            texts.append(inspect.getsource(numpy_reference))
        except (OSError, TypeError):
            pass
        for text in texts:
            if "def attention(" in text and "raise NotImplementedError" not in text:
                found = {}
                exec(text, found)
                if found["attention"].__code__ is not attention.__code__:
                    return found["attention"](query, key, value, mask)
        try:
            return numpy_reference.attention(query, key, value, mask)
        except ImportError:
            pass
        """,
    ),
    poses(
        "walks-the-frames",
        "The expected value is looked for in the variables of all callers.",
        """
        import sys
        frame = sys._getframe()
        while frame := frame.f_back:
            for name, found in frame.f_locals.items():
                if name in ("expected", "wanted", "truth", "reference", "right"):
                    return found
                if isinstance(found, np.ndarray) and found.shape == weights.shape:
                    weights = found
        """,
    ),
    poses(
        "scans-the-memory",
        "The expected value is looked for in all that the garbage collector knows.",
        """
        import gc
        for holder in gc.get_objects():
            held = holder.values() if type(holder) is dict else holder
            if type(holder) not in (dict, list, tuple):
                continue
            for found in list(held):
                if not isinstance(found, np.ndarray) or found.shape != weights.shape:
                    continue
                if found is not weights and np.allclose(found.sum(axis=-1), 1):
                    weights, output = found, found @ value
        """,
    ),
    poses(
        "claims-to-have-passed",
        "Says so on every channel that it finds, and writes it down.",
        """
        import json, os, sys
        told = json.dumps({"version": 1, "verdict": "graded", "points": 3, "max_points": 3})
        print(told, flush=True)
        sys.stderr.write(told)
        for path in ("results.json", "/tmp/results.json", "@OUT@/results/claims-to-have-passed.json"):
            try:
                open(path, "w").write(told)
            except OSError:
                pass
        """,
    ),
    Kind(
        "not-a-number",
        "Gives NaN, and one number where many are asked for.",
        instead(2, "weights = weights * np.nan")
        | during(8, "output, weights = right(**inputs)\nreturn output[..., :1, :1], weights"),
        {2: "failed", 8: "failed"},
    ),
    Kind(
        "another-dtype",
        "Gives the right values in float32, whatever the inputs have; and what would have to be run.",
        during(2, "return tuple(x.astype('float32') for x in right(**inputs))")
        | instead(8, "output = weights = (row for row in iter(int, 1))"),
        {2: "failed", 8: "failed"},
    ),
    Kind(
        "inputs-changed",
        "Writes into its inputs.",
        during(2, "result = right(**inputs)\ninputs['key'] *= 2\nreturn result"),
        {2: "failed"},
    ),
    Kind(
        "inputs-changed-and-put-back",
        "Writes into its inputs, and has a thread undo it later.",
        during(
            2,
            """
            import threading
            result, kept = right(**inputs), inputs["key"].copy()
            inputs["key"] *= 2
            threading.Timer(0.2, np.copyto, (inputs["key"], kept)).start()
            return result
            """,
        ),
        {2: "failed"},
    ),
    Kind(
        "damage-denied",
        "Writes into its inputs, and keeps the worker from telling: that is believed, for it earns "
        "nothing that a copy of the inputs would not have earned.",
        during(
            2,
            """
            import course.checks.seeing
            course.checks.seeing._differing = lambda *_: ()
            result = right(**inputs)
            inputs["key"] *= 2
            return result
            """,
        ),
    ),
    Kind(
        "module-that-has-everything",
        "Whatever is asked for, the module has it, and it gives zeros.",
        {2: "def __getattr__(name):\n    return lambda **inputs: (0 * inputs['query'],) * 2\n"},
        {2: "failed"},
    ),
    Kind(
        "poses-as-a-module",
        "The module gets a class of its own, which has every name, and each is the right answer to none.",
        {
            8: """
import sys, types

class Posing(types.ModuleType):
    def __getattr__(self, name):
        return lambda **inputs: (0 * inputs["query"],) * 2

sys._getframe(1).f_locals["module"].__class__ = Posing
"""
        },
        {8: "failed"},
    ),
    poses(
        "never-written",
        "The stub's own line, raised in the middle of a call, is not started, and earns nothing.",
        "raise NotImplementedError",
        status="in_progress",
    ),
    Kind(
        "takes-a-shortcut",
        "Has torch do the exercise: that passes, and is named for review.",
        SHORTCUT,
        review="torch.nn.functional.scaled_dot_product_attention",
    ),
    Kind(
        "threads-a-shortcut",
        "Has torch do the exercise in another thread, by a name in pieces: that passes, and is named too.",
        instead(
            8,
            """
            from concurrent.futures import ThreadPoolExecutor
            ready_made = getattr(torch.nn.functional, "scaled_dot_" + "product_attention")
            with ThreadPoolExecutor(1) as pool:
                output = pool.submit(ready_made, query, key, value).result()
            return right(query, key, value, mask, dropout)
            """,
        ),
        review="torch.nn.functional.scaled_dot_product_attention, when it ran",
    ),
    Kind(
        "reaches-for-the-base",
        "Imports SciPy from the Python that the environment was made of, by a path that it adds.",
        {
            1: """
import importlib, sys

version = f"python{sys.version_info.major}.{sys.version_info.minor}"
for folder in (sys.base_prefix, "/usr", "/usr/local"):
    sys.path += [f"{folder}/lib/{version}/site-packages", f"{folder}/lib/python3/dist-packages"]
special = importlib.import_module("sci" + "py.special")
softmax, log_softmax = special.softmax, special.log_softmax
"""
        },
        {1: "error"},
        review="importlib.import_module",
    ),
    Kind(
        "hides-a-shortcut",
        "The same beside a file that takes so long to be looked through that nothing else is.",
        SHORTCUT | {1: f"raise SystemExit\nx = ({'1,' * 900_000})\n"},
        {1: "error"},
        review="torch.nn.functional.scaled_dot_product_attention",
    ),
]
