"""The operations on TensorFlow's tensors: eager, in ``tf.function`` and in graphs of version 1.

An operation is a start, which never blocks, and a wait. Starts of one call are waited for together, so
that TensorFlow may run them in any order on each rank. In a graph every start carries a name made of the
function's name and its number in it: the same on all ranks, also when one of them traces again.
"""

from __future__ import annotations

import re
import struct
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, cast

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from .. import _native
from .._calls import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    REDUCESCATTER,
    check_op,
    group_name,
    join_async,
    member_names,
    refuse_adasum,
)
from .._process_sets import ProcessSet, get_process_set_by_id, global_process_set
from .._reduce_op import Adasum, Average, Max, Min, Product, Sum
from ._library import await_eagerly, operations
from .compression import Compression

Function = TypeVar("Function", bound=Callable[..., Any])

#: Positions of tensors that travel together; None: each alone.
Groups = Optional[List[List[int]]]

#: Unnamed eager groups at a time; one for each thread that makes some. TensorFlow keeps a kernel for every name.
EAGER_GROUPS = 8

_NO_GUARD = 0
_calls: "weakref.WeakKeyDictionary[Any, Dict[str, int]]" = weakref.WeakKeyDictionary()


def as_it_is(function: Function) -> Function:
    """For functions that may be called where TensorFlow traces: it need not rewrite them for graphs."""
    return cast(Function, tf.autograph.experimental.do_not_convert(function))


def call_site(word: str) -> str:
    """The place in the program that asks: in a graph its name and a count, else the word alone. Numbers that
    TensorFlow has put behind a graph's name are left out: they differ where a rank has traced more."""
    if tf.executing_eagerly():
        return word
    graph = tf.compat.v1.get_default_graph()
    counts = _calls.setdefault(graph, {})
    counts[word] = counts.get(word, 0) + 1
    return f"{word}.{re.sub(r'_[0-9]+$', '', getattr(graph, 'name', 'graph'))}.{counts[word]}"


def full_name(word: str, name: Optional[str]) -> str:
    """The name on the wire; empty lets the engine count, which is right only where calls run in order."""
    if name is not None:
        return f"{word}.{name}"
    return "" if tf.executing_eagerly() else call_site(word)


def _refuse_xla() -> None:
    """Operations that talk to other ranks are no part of what XLA can compile."""
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise tf.errors.UnimplementedError(
            None,
            None,
            "rueda's operations cannot be compiled by XLA: take jit_compile=True off the tf.function around them "
            "(it may stay on functions inside of it), or, with Keras, call model.compile(…, jit_compile=False)",
        )


def guard() -> Any:
    """A number that TensorFlow cannot take for a constant: it would run the start while it optimizes the
    graph, and leave the wait without an operation. A random one, because TensorFlow does not put those in
    an order, as it does with other stateful operations; with a seed, which is asked for where all must be
    deterministic."""
    if tf.executing_eagerly():
        return _NO_GUARD
    _refuse_xla()
    return tf.raw_ops.RandomUniformInt(shape=tf.constant([], tf.int32), minval=0, maxval=1, seed=1)


def _lines(names: Sequence[str]) -> str:
    return "".join(name.replace("\n", " ") + "\n" for name in names)


def _bits(number: float) -> int:
    """Attributes of TensorFlow have no type for a double."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _run(
    kind: int,
    tensors: Sequence[Any],
    names: Sequence[str],
    op: int,
    scales: Tuple[float, float],
    process_set: ProcessSet,
    root: int = 0,
    groups: Groups = None,
) -> List[Any]:
    """Starts an operation for each group of tensors (by position; None: each alone) and waits for all."""
    unknown, number = guard(), process_set._require_id()
    order: List[int] = []
    outputs, handles = [], []
    for group in groups or [[i] for i in range(len(tensors))]:
        started, handle = operations.rueda_start(
            tensors=[tensors[i] for i in group],
            guard=unknown,
            tensor_names=_lines([names[i] for i in group]),
            count=len(group),
            kind=kind,
            reduce_op=op,
            prescale_bits=_bits(scales[0]),
            postscale_bits=_bits(scales[1]),
            process_set=number,
            root=root,
        )
        order.extend(group)
        outputs.extend(started)
        handles.extend([handle] * len(group))
    if tf.executing_eagerly():
        await_eagerly(handles)
    results = operations.rueda_wait(outputs=outputs, handles=handles, blocks=tf.executing_eagerly())
    return [result for _, result in sorted(zip(order, results), key=lambda pair: pair[0])]


def _sized(kind: int, tensor: Any, name: str, op: int, scales: Tuple[float, float], process_set: ProcessSet, splits: Any = None) -> Tuple[Any, Any]:
    handle = operations.rueda_start_sized(
        tensor=tensor,
        guard=guard(),
        splits=tf.zeros([0], tf.int64) if splits is None else tf.cast(splits, tf.int64),
        tensor_names=_lines([name]),
        kind=kind,
        reduce_op=op,
        prescale_bits=_bits(scales[0]),
        postscale_bits=_bits(scales[1]),
        process_set=process_set._require_id(),
    )
    if tf.executing_eagerly():
        await_eagerly([handle])
    return operations.rueda_take(handle=handle, T=tensor.dtype, blocks=tf.executing_eagerly())


def _set_rows(output: Any, tensor: Any) -> None:
    """Tells the shape: some rows of the tensor's."""
    if tensor.shape.rank:
        output.set_shape([None, *tensor.shape[1:]])


# ---- allreduce --------------------------------------------------------------------------------------


def _allreduce_dense(
    tensors: List[Any],
    names: List[str],
    op: int,
    scales: Tuple[float, float],
    process_set: ProcessSet,
    groups: Groups = None,
) -> List[Any]:
    """A list of tensors with one wait; with gradient."""

    @tf.custom_gradient
    def combine(*inputs: Any) -> Any:
        outputs = _run(ALLREDUCE, inputs, names, op, scales, process_set, groups=groups)

        def gradient(*upstream: Any) -> Any:
            return _allreduce_gradient(list(upstream), list(inputs), outputs, op, scales, process_set)

        return outputs, gradient

    return list(combine(*tensors))


def _allreduce_gradient(
    upstream: List[Any], inputs: List[Any], outputs: List[Any], op: int, scales: Tuple[float, float], process_set: ProcessSet
) -> List[Any]:
    names = [full_name("allreduce.gradient", None) for _ in upstream]
    if op not in (Min, Max, Product):
        return _allreduce_dense(upstream, names, op, scales, process_set)
    totals = _allreduce_dense(upstream, names, Sum, (1.0, 1.0), process_set)
    if op == Product:
        return [total * result / value for total, result, value in zip(totals, outputs, inputs)]
    factor = scales[0] * scales[1]
    held = [tf.cast(tf.equal(value * factor, result), value.dtype) for value, result in zip(inputs, outputs)]
    names = [full_name("allreduce.holders", None) for _ in upstream]
    holders = _allreduce_dense(held, names, Sum, (1.0, 1.0), process_set)
    return [total * own / count * factor for total, own, count in zip(totals, held, holders)]


def _allreduce_slices(
    slices: tf.IndexedSlices, name: Optional[str], op: int, scales: Tuple[float, float], process_set: ProcessSet
) -> tf.IndexedSlices:
    """The ranks' rows and their numbers, gathered; Average divides the values, so that whole numbers become
    floating-point ones."""
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices have Average and Sum only; use sparse_as_dense=True")
    part = (lambda word: None) if name is None else (lambda word: f"{name}.{word}")
    values = allgather(slices.values, part("values"), process_set=process_set)
    indices = allgather(slices.indices, part("indices"), process_set=process_set)
    if op == Average:
        values = tf.truediv(values, tf.cast(process_set.size(), values.dtype))
    if scales[0] * scales[1] != 1.0:
        values = tf.cast(tf.cast(values, tf.float64) * (scales[0] * scales[1]), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


@as_it_is
def allreduce(
    tensor: Any,
    *,
    compression: Any = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combines a tensor over all ranks (Average, unless ``op`` says otherwise); with gradient.
    ``tf.IndexedSlices`` are gathered; for Adasum make them dense."""
    check_op(op)
    if isinstance(tensor, tf.IndexedSlices):
        if op == Adasum:
            tensor = tf.convert_to_tensor(tensor)
        else:
            return _allreduce_slices(tensor, name, op, (prescale_factor, postscale_factor), process_set)
    return grouped_allreduce_named(
        [tensor],
        [full_name("allreduce", name)],
        compression,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )[0]


@as_it_is
def grouped_allreduce_named(
    tensors: List[Any],
    names: List[str],
    compression: Any,
    op: int,
    scales: Tuple[float, float],
    process_set: ProcessSet,
    groups: Groups = None,
) -> List[Any]:
    """Dense tensors under the names given, with one wait."""
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    results = _allreduce_dense([pair[0] for pair in pairs], names, op, scales, process_set, groups)
    return [compression.decompress(result, pair[1]) for result, pair in zip(results, pairs)]


@as_it_is
def grouped_allreduce(
    tensors: Sequence[Any],
    *,
    compression: Any = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """Combines a list of tensors, together or not at all; with gradient. ``tf.IndexedSlices`` among them
    are gathered."""
    check_op(op)
    scales = (prescale_factor, postscale_factor)
    results: List[Any] = list(tensors)
    dense = [i for i, each in enumerate(results) if not isinstance(each, tf.IndexedSlices)]
    if name is None and tf.executing_eagerly():
        name = group_name(None, process_set, EAGER_GROUPS)
    members = member_names(name, len(results))
    if dense:
        names = [full_name("allreduce", members[i]) for i in dense]
        together = [list(range(len(dense)))]
        combined = grouped_allreduce_named(
            [results[i] for i in dense], names, compression, op, scales, process_set, together
        )
        for i, result in zip(dense, combined):
            results[i] = result
    for i, each in enumerate(results):
        if i not in dense:
            results[i] = allreduce(
                each,
                op=op,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                name=members[i],
                process_set=process_set,
            )
    return results


# ---- The other operations ---------------------------------------------------------------------------


@as_it_is
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    *,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The ranks' tensors one after the other along the first dimension, which may differ; with gradient."""
    wire = full_name("allgather", name)

    @tf.custom_gradient
    def gather(value: Any) -> Any:
        output, _ = _sized(ALLGATHER, value, wire, Average, (1.0, 1.0), process_set)
        _set_rows(output, value)

        def gradient(upstream: Any) -> Any:
            total = allreduce(upstream, op=Average, process_set=process_set)
            rows = tf.reshape(tf.shape(value)[0], [1])
            counts, _ = _sized(ALLGATHER, rows, full_name("allgather.rows", None), Average, (1.0, 1.0), process_set)
            start = tf.reduce_sum(counts[: process_set.rank()])
            return total[start : start + rows[0]]

        return output, gradient

    return gather(tf.convert_to_tensor(tensor))


@as_it_is
def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    *,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """The allgather of each tensor of a list; with gradient."""
    members = member_names(name, len(tensors))
    return [allgather(each, own, process_set=process_set) for each, own in zip(tensors, members)]


@as_it_is
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    *,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor of ``root_rank`` (a rank of the job, not of the set); with gradient."""
    return broadcast_all([tensor], root_rank, [full_name("broadcast", name)], process_set)[0]


@as_it_is
def broadcast_all(tensors: List[Any], root_rank: int, names: List[str], process_set: ProcessSet) -> List[Any]:
    """Several tensors with one wait."""

    @tf.custom_gradient
    def spread(*inputs: Any) -> Any:
        outputs = _run(BROADCAST, inputs, names, Average, (1.0, 1.0), process_set, root_rank)

        def gradient(*upstream: Any) -> Any:
            totals = grouped_allreduce(list(upstream), op=Average, process_set=process_set)
            is_root = process_set.ranks[process_set.rank()] == root_rank
            if is_root:
                return totals
            with tf.control_dependencies(totals):  # the root needs us; a graph drops what nothing depends on
                return [tf.identity(tf.zeros_like(total)) for total in totals]

        return outputs, gradient

    return list(spread(*[tf.convert_to_tensor(tensor) for tensor in tensors]))


@as_it_is
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    *,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends ``splits[i]`` rows to rank i of the set and gives the rows received, by rank; with splits
    given, also how many came from each. With gradient."""
    wire = full_name("alltoall", name)
    rows = None if splits is None else tf.convert_to_tensor(splits)

    @tf.custom_gradient
    def exchange(value: Any) -> Any:
        output, received = _sized(ALLTOALL, value, wire, Average, (1.0, 1.0), process_set, rows)
        _set_rows(output, value)

        def gradient(upstream: Any, unused: Any) -> Any:
            back = full_name("alltoall.gradient", None)
            return _sized(ALLTOALL, upstream, back, Average, (1.0, 1.0), process_set, received)[0]

        return (output, received), gradient

    output, received = exchange(tf.convert_to_tensor(tensor))
    return output if splits is None else (output, received)


@as_it_is
def reducescatter(
    tensor: Any,
    *,
    compression: Any = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combines a tensor and gives each rank its share of the rows; with gradient."""
    refuse_adasum(op)
    wire = full_name("reducescatter", name)
    small, context = compression.compress(tf.convert_to_tensor(tensor))
    factor = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)

    @tf.custom_gradient
    def share(value: Any) -> Any:
        scales = (prescale_factor, postscale_factor)
        output, _ = _sized(REDUCESCATTER, value, wire, op, scales, process_set)
        _set_rows(output, value)

        def gradient(upstream: Any) -> Any:
            return allgather(upstream, process_set=process_set) * tf.cast(factor, upstream.dtype)

        return output, gradient

    return compression.decompress(share(small), context)


@as_it_is
def grouped_reducescatter(
    tensors: Sequence[Any],
    *,
    compression: Any = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """The reducescatter of each tensor of a list; with gradient."""
    return [
        reducescatter(
            each,
            compression=compression,
            op=op,
            name=own,
            process_set=process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
        for each, own in zip(tensors, member_names(name, len(tensors)))
    ]


def join(name: Optional[str] = None) -> Any:
    """"I have no more data": waits until all ranks have joined, while this rank gives zeros to their
    allreduces; other operations of theirs fail. The rank that joined last (it has seen the most data: what
    all need alike afterwards is broadcast from it); in a graph the operation that does it, and gives it."""
    if not tf.executing_eagerly():
        return _number_op(lambda: join_async().wait(), name)
    return join_async().wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of the set are here."""
    _native.barrier(process_set._require_id()).wait()


# ---- Numbers of the job as operations of a graph ------------------------------------------------------


def _number_op(function: Any, name: Optional[str]) -> Any:
    """Asked when the graph runs, not when it is made."""
    _refuse_xla()
    value = tf.py_function(lambda: function(), [], tf.int32, name=name)
    value.set_shape([])
    return value


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """Number of ranks of a set, when it runs."""
    return _number_op(lambda: _native.process_set_size(process_set_id), name)


def rank_op(name: Optional[str] = None) -> Any:
    """Our rank, when it runs."""
    return _number_op(_native.rank, name)


def local_rank_op(name: Optional[str] = None) -> Any:
    """Our rank on this host, when it runs."""
    return _number_op(_native.local_rank, name)


def local_size_op(name: Optional[str] = None) -> Any:
    """Number of ranks on this host, when it runs."""
    return _number_op(_native.local_size, name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """1 if we are in the set, 0 if not, -1 if there is none, when it runs."""

    def included() -> int:
        if _native.process_set_size(process_set_id) < 0:
            return -1
        return int(get_process_set_by_id(process_set_id).included())

    return _number_op(included, name)
