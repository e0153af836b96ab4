"""Moves what depends on parameters only into the plan's ``prepare``, which runs once for a set of weights."""

from __future__ import annotations

import dataclasses

from optimizer.recipes.ir import Leaf, Node, Output, Program, contiguous_strides


def prepared_values(program: Program) -> list[int]:
    """Values computed from parameters and numbers alone that other work reads."""
    fixed: set[int] = set()
    has_parameter: set[int] = set()
    for node in program.nodes.values():
        if node.kind == "load" and program.leaves[node.op].kind == "param":
            fixed.add(node.id)
            has_parameter.add(node.id)
        elif node.kind == "const" or (node.kind == "op" and all(arg in fixed for arg in node.args)):
            fixed.add(node.id)
            if any(arg in has_parameter for arg in node.args):
                has_parameter.add(node.id)
    results = {output.node for output in program.outputs}
    read_outside = {
        arg for node in program.nodes.values() if node.id not in fixed for arg in node.args
    } | results
    return [
        node_id
        for node_id in program.nodes
        if node_id in fixed & has_parameter & read_outside and program.nodes[node_id].kind == "op"
        and node_id not in results and program.nodes[node_id].op not in ("copy", "cast")
    ]  # fmt: skip


def split_off(program: Program, names: dict[int, str]) -> tuple[Program, Program]:
    """(the program of ``prepare``, the program of ``forward`` which reads the prepared values as parameters).

    ``names``: the key under which each prepared value is handed over.
    """
    outputs = tuple(
        Output(n, program.nodes[n].axes, _shape(program, n), program.nodes[n].dtype, names[n]) for n in names
    )
    before = dataclasses.replace(
        program, outputs=outputs, input_names=(), size_names=dict.fromkeys(program.size_names, "")
    )
    before = before.replace_nodes(dict(program.nodes))
    nodes, leaves = dict(program.nodes), dict(program.leaves)
    for node_id, key in names.items():
        node = program.nodes[node_id]
        leaves[key] = Leaf(key, key, "param", _shape(program, node_id), node.dtype, f'params["{key}"]')
        strides = contiguous_strides(_shape(program, node_id))
        nodes[node_id] = Node(
            node_id, "load", key, dtype=node.dtype, axes=node.axes, strides=strides, origin=node.origin
        )
    after = dataclasses.replace(program, leaves=leaves).replace_nodes(nodes)
    return before, after


def _shape(program: Program, node_id: int) -> tuple[int, ...]:
    return tuple(program.sizes[axis] for axis in program.nodes[node_id].axes)
