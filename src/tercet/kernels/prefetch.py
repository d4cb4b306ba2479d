"""Asking for a cache line before it is needed."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(typing_context, matrix, row, column):
    """Bring the line that holds ``matrix[row, column]`` (C order) to the second-level cache; changes no value."""
    signature = types.void(matrix, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = cgutils.unpack_tuple(builder, array.shape, 2)[1]
        address = builder.gep(array.data, [builder.add(builder.mul(arguments[1], width), arguments[2])])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(function, [address, i32(0), i32(2), i32(1)])  # read, second level, data
        return context.get_dummy_value()

    return signature, generate
