"""Prefetches: a cache line is brought closer before it is read."""

from tercet.kernels.compiler import helper, intrinsic

LINE = 16  # float32 in a cache line


@intrinsic
def prefetch(typing_context, matrix, row, column):
    """Bring the line that holds ``matrix[row, column]`` (C order) to the second-level cache; changes no value."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

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


@helper
def line_starts(cols, n, starts):
    """Write one column of each cache line touched by the rising ``cols`` to ``starts``; return their number."""
    m, last = 0, -1
    for j in range(n):
        line = cols[j] // LINE
        if line != last:
            starts[m] = cols[j]
            m += 1
            last = line
    return m


@helper
def prefetch_lines(matrix, row, starts, m):
    """Prefetch the m cache lines of a row that ``line_starts`` found."""
    for i in range(m):
        prefetch(matrix, row, starts[i])
