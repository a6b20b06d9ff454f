"""What only strict mode refuses: Triton refuses it, the language here has it."""
# RUN: not nereid-frontend %s 'k_*' "p:*i32,n:i32" --strict | FileCheck %s --implicit-check-not=func.func
# RUN: nereid-frontend %s 'k_*' "p:*i32,n:i32"
import triton
import triton.language as tl

KNOWN = tl.constexpr(True)


@triton.jit
def k_chained(p, n):
    tl.store(p, 0 < n < 10)
# CHECK-LABEL: == k_chained
# CHECK: strict.py:[[@LINE-2]]:17: error: simultaneous multiple comparison is not supported
# CHECK: [ChainedComparison]


@triton.jit
def k_targets(p, n):
    a = b = n
    tl.store(p, a + b)
# CHECK-LABEL: == k_targets
# CHECK: strict.py:[[@LINE-3]]:5: error: an assignment to several targets is not available in strict mode: write one assignment for each
# CHECK: [SeveralTargets]


@triton.jit
def k_break(p, n):
    for i in range(n):
        if tl.load(p + i) == 0:
            break
# CHECK-LABEL: == k_break
# CHECK: strict.py:[[@LINE-2]]:13: error: unsupported AST node type: Break
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_return_in_loop(p, n):
    for i in range(n):
        if tl.load(p + i) == 0:
            return
# CHECK-LABEL: == k_return_in_loop
# CHECK: strict.py:[[@LINE-2]]:13: error: `return` inside a loop is not available in strict mode
# CHECK: [ReturnInLoop]


@triton.jit
def k_for_tuple(p, n):
    for x in (1, n):
        tl.store(p, x)
# CHECK-LABEL: == k_for_tuple
# CHECK: strict.py:[[@LINE-3]]:14: error: cannot iterate over tuple: expected `range`, `tl.range`, `tl.static_range` or a tuple
# CHECK: [NotIterable]


@triton.jit
def k_type_in_both_branches(p, n):
    x = 1
    if n > 1:
        x = 2.0
    else:
        x = 3.0
    tl.store(p, x)
# CHECK-LABEL: == k_type_in_both_branches
# CHECK: strict.py:[[@LINE-5]]:9: error: initial value for `x` is of type int32, but the then block redefines it as fp32
# CHECK: [BranchChangesType]


@triton.jit
def k_while_number(p, n):
    while n:
        n = n - 1
# CHECK-LABEL: == k_while_number
# CHECK: strict.py:[[@LINE-3]]:11: error: the condition of a `while` must be a run-time bool (strict mode), found int32
# CHECK: [ExpectedArgumentKind]


@triton.jit
def k_while_known(p, n):
    while KNOWN is None:
        n = n - 1
# CHECK-LABEL: == k_while_known
# CHECK: strict.py:[[@LINE-3]]:11: error: the condition of a `while` must be a run-time bool (strict mode), found bool
# CHECK: [ExpectedArgumentKind]


@triton.jit
def k_named_expression(p, n):
    if (m := n) > 1:
        tl.store(p, m)
# CHECK-LABEL: == k_named_expression
# CHECK: strict.py:[[@LINE-3]]:9: error: unsupported AST node type: NamedExpr
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_store_number(p, n):
    desc = tl.make_tensor_descriptor(p, [64], [1], [16])
    desc.store([0], n)
# CHECK-LABEL: == k_store_number
# CHECK: strict.py:[[@LINE-2]]:21: error: `value` must be a block (strict mode), found
# CHECK: [ExpectedArgumentKind]


@triton.jit
def k_while_true(p, n):
    while True:
        tl.store(p, 1)
        return
# CHECK-LABEL: == k_while_true
# CHECK: strict.py:[[@LINE-4]]:11: error: this loop never ends: its condition is always true and nothing leaves it
# CHECK: [EndlessLoop]


@triton.jit
def k_index(p, n):
    tl.store(p, (tl.arange(0, 8) + n)[1])
# CHECK-LABEL: == k_index
# CHECK: strict.py:[[@LINE-2]]:39: error: unsupported tensor index: 1; expected `None` or `:`
# CHECK: [UnsupportedIndex]


@triton.jit
def k_ellipsis(p, n):
    tl.store(p + tl.arange(0, 8), tl.arange(0, 8)[...])
# CHECK-LABEL: == k_ellipsis
# CHECK: strict.py:[[@LINE-2]]:51: error: unsupported tensor index: Ellipsis; expected `None` or `:`
# CHECK: [UnsupportedIndex]


@triton.jit
def k_nested_function(p, n):
    def inner(x):
        return x + 1
    tl.store(p, inner(n))
# CHECK-LABEL: == k_nested_function
# CHECK: strict.py:[[@LINE-4]]:9: error: nested functions are not available in strict mode: move `inner` out of the kernel
# CHECK: [NestedFunction]


@triton.jit
def k_lambda(p, n):
    f = lambda x: x + 1
    tl.store(p, f(n))
# CHECK-LABEL: == k_lambda
# CHECK: strict.py:[[@LINE-3]]:9: error: unsupported AST node type: Lambda
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_nested_comprehension(p, n):
    x = [a + b for a in (1, 2) for b in (3, 4)]
    tl.store(p, x[0])
# CHECK-LABEL: == k_nested_comprehension
# CHECK: strict.py:[[@LINE-3]]:9: error: nested comprehensions are not supported
# CHECK: [NestedComprehension]


@triton.jit
def k_starred_target(p, n):
    a, *b = (n, 2, 3)
    tl.store(p, b[0])
# CHECK-LABEL: == k_starred_target
# CHECK: strict.py:[[@LINE-3]]:8: error: unsupported AST node type: Starred
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_in(p, n):
    if 2 in (1, 2):
        tl.store(p, n)
# CHECK-LABEL: == k_in
# CHECK: strict.py:[[@LINE-3]]:8: error: the comparison operator `In` is not available in strict mode
# CHECK: [OperatorStrict]


@triton.jit
def keyword_only(x, *, y):
    return x + y


@triton.jit
def k_keyword_only(p, n):
    tl.store(p, keyword_only(n, y=1))
# CHECK-LABEL: == k_keyword_only
# CHECK: strict.py:[[@LINE-2]]:17: error: unsupported AST node type: keyword-only parameter
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_list_target(p, n):
    [a, b] = (n, 2)
    tl.store(p, a + b)
# CHECK-LABEL: == k_list_target
# CHECK: strict.py:[[@LINE-3]]:5: error: unsupported AST node type: List in an assignment
# CHECK: [UnsupportedSyntax]


@triton.jit
def k_unpacked_range(p, n):
    a, b = range(2)
    tl.store(p, a + b)
# CHECK-LABEL: == k_unpacked_range
# CHECK: strict.py:[[@LINE-3]]:5: error: cannot unpack range: expected a tuple
# CHECK: [NotUnpackable]


@triton.jit
def k_comprehension_target(p, n):
    x = [b for a, b in ((1, n), (2, n))]
    tl.store(p, x[0])
# CHECK-LABEL: == k_comprehension_target
# CHECK: strict.py:[[@LINE-3]]:16: error: unsupported AST node type: Tuple as the target of a comprehension
# CHECK: [UnsupportedSyntax]


# Code behind an `if` that has returned is walked.
@triton.jit
def k_behind_known_return(p, n):
    if KNOWN:
        return
    tl.store(p, tl.arange(0, 4))
# CHECK-LABEL: == k_behind_known_return
# CHECK: strict.py:[[@LINE-2]]:17: error: the pointer is a scalar: expected a scalar `value`, found int32 block of shape [4]
# CHECK: note: in Triton's words: Value argument cannot be block type if pointer argument is not a block
# CHECK: [BlockWithScalarPointer]


@triton.jit
def first_of_two(n):
    if KNOWN:
        return n
    return n.to(tl.float32)


@triton.jit
def k_known_returns_differ(p, n):
    tl.store(p, first_of_two(n))
# CHECK-LABEL: == k_known_returns_differ
# CHECK: strict.py:{{[0-9]+}}:12: error: the `return` statements of a function must give one type, found int32 and fp32: cast one of them
# CHECK: [ReturnTypeMismatch]


@triton.jit
def text_in_if(n):
    if KNOWN:
        return "text"
    return "text"


@triton.jit
def k_returned_text(p, n):
    tl.store(p, n if text_in_if(n) == "text" else 0)
# CHECK-LABEL: == k_returned_text
# CHECK: strict.py:{{[0-9]+}}:16: error: {{.*}}str
# CHECK: [


@triton.jit
def k_type_beside_return(p, n):
    x = 1
    if n > 1:
        x = 2.0
        return
    tl.store(p, x)
# CHECK-LABEL: == k_type_beside_return
# CHECK: strict.py:[[@LINE-4]]:9: error: initial value for `x` is of type int32, but the then block redefines it as fp32
# CHECK: [BranchChangesType]


@triton.jit
def k_name_beside_return(p, n):
    if n > 1:
        x = 2
    else:
        return
    tl.store(p, x)
# CHECK-LABEL: == k_name_beside_return
# CHECK: strict.py:[[@LINE-2]]:17: error: {{.*}}`x`
# CHECK: [AssignedInOneBranch]


@triton.jit
def k_indices(p, n):
    tl.max(tl.arange(0, 16), None, return_indices=True)
# CHECK-LABEL: == k_indices
# CHECK: error: positions of an extremum need an `axis` (strict mode), found None: reshape to one dimension and give 0
# CHECK: [IndicesNeedAxis]


@triton.jit
def k_cat_order(p, n):
    tl.cat(tl.arange(0, 4), tl.arange(0, 4))
# CHECK-LABEL: == k_cat_order
# CHECK: error: `cat` needs `can_reorder=True` in strict mode, because Triton's `cat` may change the order of elements
# CHECK: [CatReorders]


@triton.jit
def k_cat_rank(p, n):
    tl.cat(tl.zeros((4, 4), tl.int32), tl.zeros((4, 4), tl.int32), can_reorder=True)
# CHECK-LABEL: == k_cat_rank
# CHECK: error: `cat` takes blocks of one dimension (strict mode), found shape [4, 4]
# CHECK: [CatRank]


@triton.jit
def k_small_dot(p, n):
    tl.dot(tl.zeros((8, 8), tl.float32), tl.zeros((8, 8), tl.float32))
# CHECK-LABEL: == k_small_dot
# CHECK: error: the blocks of `dot` are too small for strict mode: expected M >= 1, N >= 1 and K >= 16, found [8, 8] and [8, 8]
# CHECK: [DotSizes]


@triton.jit
def k_imprecise(p, n):
    tl.dot(tl.zeros((16, 32), tl.float8e5), tl.zeros((32, 16), tl.float8e5), max_num_imprecise_acc=64)
# CHECK-LABEL: == k_imprecise
# CHECK: error: `max_num_imprecise_acc` can be at most the inner dimension in strict mode: expected at most 32, found 64
# CHECK: [DotImprecise]
