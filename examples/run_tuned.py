"""Run a tuned program from JAX.

    python run_tuned.py mobilenet.tuned.hlo.pb [mobilenet.flags.json]

`load` is all that is needed: the result is a function on arrays, in the order of the program's
parameters. Tried with jax 0.10.
"""

import json
import sys

import jax
import numpy as np
from jaxlib import _hlo, _jax


def load(proto_path, flags_path=None):
    """The program in `proto_path` as a function of its parameters; it returns a list of arrays."""
    with open(proto_path, "rb") as file:
        proto = file.read()
    options = _jax.CompileOptions()
    if flags_path is not None:
        with open(flags_path) as file:
            options.env_option_overrides = list(json.load(file).items())
    device = jax.devices()[0]
    executable = device.client.compile_and_load(
        _jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList((device,)), options)

    def run(*arrays):
        return executable.execute([jax.device_put(a, device) for a in arrays])

    return run


def parameter_shapes(proto_path):
    with open(proto_path, "rb") as file:
        computation = _hlo.XlaComputation(file.read())
    return [(p.dimensions(), p.numpy_dtype()) for p in computation.program_shape().parameter_shapes()]


if __name__ == "__main__":
    program = load(*sys.argv[1:3])
    random = np.random.default_rng(0)
    inputs = [random.uniform(0.5, 1.5, dims).astype(dtype)
              for dims, dtype in parameter_shapes(sys.argv[1])]
    for output in program(*inputs):
        values = np.asarray(output)
        print(values.dtype, values.shape, values.ravel()[:4])
