"""Threads of the system inside one kernel call: they never run Python, and so never wait for the GIL.

They exist only during the call: there is nothing to keep, to stop, or to repair in a forked child.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiler import JIT
from .memory import pointer_to

LINE = 8
"""Counters that threads add to are so many int64 apart, each in a cache line of its own."""

MAX_THREADS = 1024

if JIT:

    @intrinsic
    def fetch_add(typing_context, counters, k, amount):
        """Add to `counters[k]`, int64, atomically; return the value before."""

        def generate(context, builder, signature, arguments):
            pointer = pointer_to(context, builder, signature.args[0], *arguments[:2])
            return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

        return types.int64(counters, types.int64, types.int64), generate

    def on_threads(work: Any) -> Any:
        """Return `run(helpers, arguments)` for kernels, which calls the helper `work(*arguments)` on this thread and on
        up to `helpers` new ones, fewer than MAX_THREADS. All have ended when it returns; False if any call has failed.

        No more threads are started after one that the system refuses.
        """

        def unpacked(arguments):
            work(*arguments)

        @intrinsic
        def run(typing_context, helpers, arguments):
            def generate(context, builder, signature, values):
                byte, word, code = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
                nothing, failed = ir.Constant(byte, None), ir.Constant(word, 1).inttoptr(byte)
                call = types.none(signature.args[1])
                compiled = context.compile_subroutine(builder, unpacked, call)
                packed = cgutils.alloca_once_value(builder, values[1])

                name = f"{builder.function.name}.thread"
                main = ir.Function(builder.module, ir.FunctionType(byte, [byte]), name)
                main.linkage = "internal"
                inside = ir.IRBuilder(main.append_basic_block())
                loaded = inside.load(inside.bitcast(main.args[0], packed.type))
                status, _ = context.call_internal_no_propagate(inside, compiled.fndesc, call, [loaded])
                inside.ret(inside.select(status.is_error, failed, nothing))

                function = cgutils.get_or_insert_function
                start = ir.FunctionType(code, [word.as_pointer(), byte, main.type, byte])
                create = function(builder.module, start, "pthread_create")
                join = function(builder.module, ir.FunctionType(code, [word, byte.as_pointer()]), "pthread_join")
                threads = cgutils.alloca_once(builder, word, size=ir.Constant(word, MAX_THREADS))
                started = cgutils.alloca_once_value(builder, ir.Constant(word, 0))
                argument = builder.bitcast(packed, byte)
                with cgutils.for_range(builder, values[0]) as loop:
                    thread = builder.gep(threads, [loop.index])
                    refusal = builder.call(create, [thread, nothing, main, argument])
                    with builder.if_then(cgutils.is_not_null(builder, refusal), likely=False):
                        loop.do_break()
                    builder.store(builder.add(loop.index, ir.Constant(word, 1)), started)
                results = cgutils.alloca_once_value(builder, builder.call(main, [argument]))
                ended = cgutils.alloca_once(builder, byte)
                with cgutils.for_range(builder, builder.load(started)) as loop:
                    builder.call(join, [builder.load(builder.gep(threads, [loop.index])), ended])
                    either = builder.or_(*(builder.ptrtoint(builder.load(p), word) for p in (results, ended)))
                    builder.store(builder.inttoptr(either, byte), results)
                return cgutils.is_null(builder, builder.load(results))

            return types.boolean(types.int64, arguments), generate

        return run

else:

    def fetch_add(counters: np.ndarray, k: int, amount: int) -> np.int64:
        counters[k] += amount
        return counters[k] - amount

    def on_threads(work: Any) -> Any:
        def run(helpers: int, arguments: tuple[Any, ...]) -> bool:
            work(*arguments)
            return True

        return run
