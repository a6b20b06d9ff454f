"""The seeded bugs. Each row was written from reading the code, before any run, and is a mistake that somebody could have made there.

`expr(where, file, context, old, new, why)` replaces an expression, `skip(...)` leaves a statement out, `text(...)` replaces text of the
prelude. `context` occurs once in the file and holds `old` once. `where` says what can notice: "cpu", "cuda", "both", "modes": the CPU
in checked and debug mode, or "gradients": the tests of gradients, on the CPU.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int
    kind: str
    where: str
    file: str
    context: str
    old: str
    new: str
    why: str


MUTANTS = []


def _add(kind, where, file, context, old, new, why):
    MUTANTS.append(Mutant(len(MUTANTS) + 1, kind, where, file, context, old, new, why))


def expr(where, file, context, old, new, why):
    _add("expr", where, file, context, old, new, why)


def skip(where, file, old, why):
    _add("skip", where, file, old, old, "", why)


def text(where, file, old, new, why):
    _add("text", where, file, old, old, new, why)


# The front end's type rules.
OPERATORS = "src/frontend/operators.cpp"
expr("both", OPERATORS, "return isSigned ? emit<arith::DivSIOp>(s, a, b) : emit<arith::DivUIOp>(s, a, b);", "isSigned ?", "true ?",
     "unsigned division done signed")
expr("both", OPERATORS, "return isSigned ? emit<arith::RemSIOp>(s, a, b) : emit<arith::RemUIOp>(s, a, b);", "isSigned ?", "!isSigned ?",
     "signedness of the remainder exchanged")
expr("both", OPERATORS, "isSigned ? emit<arith::ShRSIOp>(*this, x, y) : emit<arith::ShRUIOp>(*this, x, y);", "isSigned ?", "false ?",
     "an arithmetic shift that brings in zeros")
expr("both", OPERATORS, "return arith::CmpFPredicate::UNE; // NaN != NaN", "arith::CmpFPredicate::UNE", "arith::CmpFPredicate::ONE",
     "NaN != NaN is false")
expr("both", OPERATORS, "return arith::CmpFPredicate::OLE;", "arith::CmpFPredicate::OLE", "arith::CmpFPredicate::OLT", "<= without equality")
expr("both", OPERATORS, "return arith::CmpFPredicate::OGT;", "arith::CmpFPredicate::OGT", "arith::CmpFPredicate::UGT",
     "> is true for NaN")
expr("both", OPERATORS, "return isSigned ? P::slt : P::ult;", "isSigned ?", "true ?", "unsigned < compared signed")
expr("both", OPERATORS, "return isSigned ? P::sge : P::uge;", "isSigned ? P::sge : P::uge", "isSigned ? P::sgt : P::ugt",
     ">= without equality")
expr("both", OPERATORS, "if (!isSignedInt(offset.type.scalar) && info(offset.type.scalar).bits < 64) {\n    auto wide",
     "!isSignedInt(offset.type.scalar) &&", "false &&", "unsigned offsets of pointers sign-extended")
expr("both", OPERATORS, "return isSignedInt(tensor->type.scalar);\n  auto type = s.literalType(a);", "isSignedInt(tensor->type.scalar)", "true",
     "the kind of >> is always arithmetic")
CAST = "src/frontend/cast.cpp"
expr("both", CAST, "if (isSignedInt(from))\n      return made(arith::ExtSIOp::create", "isSignedInt(from)", "!isSignedInt(from)",
     "sign and zero extension exchanged")
expr("both", CAST, "if (isSignedInt(to))\n      return made(arith::FPToSIOp", "isSignedInt(to)", "false",
     "float to a signed integer converted unsigned")
expr("both", CAST, "if (isSignedInt(from))\n    return made(arith::SIToFPOp", "isSignedInt(from)", "true",
     "unsigned integers to floats as signed ones")
expr("both", CAST, "how.rounding == Rounding::TowardsZero ? tile::Rounding::RTZ : tile::Rounding::RTNE;",
     "how.rounding == Rounding::TowardsZero ?", "false ?", "rtz ignored")
ARITHMETIC = "src/frontend/builtins/arithmetic.cpp"
expr("both", ARITHMETIC, "return isMax ? apply<arith::MaxSIOp>(s, a, b) : apply<arith::MinSIOp>(s, a, b);", "isMax ?", "!isMax ?",
     "signed maximum and minimum exchanged")
expr("both", ARITHMETIC, "if (isSignedInt(type))\n    return", "isSignedInt(type)", "true", "unsigned extremum compared signed")
expr("both", ARITHMETIC, "    if (nan)\n      return isMax", "(nan)", "(!nan)", "propagation of NaN inverted")
expr("both", ARITHMETIC, "Tensor raised = extremum(s, true, *nan, upper->first, bound->first);", "bound->first", "upper->second",
     "clamp raises to the upper bound")

# Prelude.
REDUCTION = "src/prelude/reduction.py"
text("both", REDUCTION, "    keep = (a > b) | ((a == b) & (i < j))\n    if a.dtype.is_floating():\n        keep = keep | (b != b)  # NaN loses against numbers",
     "    keep = (a > b) | ((a == b) & (i > j))\n    if a.dtype.is_floating():\n        keep = keep | (b != b)",
     "argmax takes the last of equal values")
text("both", REDUCTION, "    keep = (a < b) | ((a == b) & (i < j))\n    if a.dtype.is_floating():\n        keep = keep | (b != b)",
     "    keep = (a < b) | ((a == b) & (i < j))", "argmin does not skip NaN")
text("both", REDUCTION, "input.to(int32 if input.dtype.is_int_signed() else uint32)", "input.to(uint32 if input.dtype.is_int_signed() else int32)",
     "sums of narrow integers widened to the wrong type")
text("both", REDUCTION, "    if dtype is None and triton_version() < 309:\n        return associative_scan(_scan_input(input), axis, _multiply, reverse)",
     "    if dtype is None and triton_version() < 309:\n        return associative_scan(_scan_input(input), axis, _multiply)",
     "cumprod ignores reverse")
text("both", "src/prelude/standard.py", "    return add(x, sub(div, 1)) // div", "    return add(x, div) // div", "cdiv is one too large for multiples")
text("both", "src/prelude/random.py", "        c1 = multiplier_b * old2", "        c1 = multiplier_a * old2",
     "a wrong multiplier of Philox")

# Control flow of the front end.
CONTROL = "src/frontend/control_flow.cpp"
expr("both", CONTROL, "return hole(tensorA->ir, tensorB->ir, tensorA->type);", "hole(tensorA->ir, tensorB->ir, tensorA->type)",
     "hole(tensorB->ir, tensorB->ir, tensorA->type)", "a branch yields the value of the other side")
expr("both", CONTROL, "if (a.never() && b.always())\n    return Flag::of(negate(condition));", "negate(condition)", "condition",
     "leaving on the else side flagged on the then side")
expr("both", CONTROL, "for (const Flag *flag : {&scope().returned, &scope().broke, &scope().continued})", "&scope().continued})",
     "&scope().broke})", "what follows a conditional continue runs all the same")

# Folding and combination.
FOLDS = "src/ir/tile/Folds.cpp"
expr("both", FOLDS, "order.push_back(dim > axis ? dim - 1 : dim);", "dim > axis ?", "dim < axis ?", "a transposition of an expanded tensor in the wrong order")
expr("both", FOLDS, "shape.insert(shape.begin() + op.getAxis(), 1);", "op.getAxis()", "0", "the expanded axis always first")
expr("both", FOLDS, "rewriter.replaceOp(op, {join.getLhs(), join.getRhs()});", "join.getLhs(), join.getRhs()", "join.getRhs(), join.getLhs()",
     "split of join exchanged")
expr("both", FOLDS, "llvm::APInt sum = a.sadd_ov(b, wraps);", "a.sadd_ov(b, wraps)", "a.ssub_ov(b, wraps)", "constant offsets subtracted")
expr("both", FOLDS, "if (!isIdempotent(op))\n      return failure();", "!isIdempotent(op)", "op.getSrcs().size() != 1",
     "sums of equal elements folded like maxima")
COMBINE = "src/transforms/Combine.cpp"
expr("both", COMBINE, "if (!inner || !isSplat(op.getOffset()) || isSplat(inner.getOffset()))\n      return failure();\n    Value base =\n        AddPtrOp::create(rewriter, op.getLoc(), op.getType(), inner.getPtr(), op.getOffset());",
     "inner.getPtr(), op.getOffset());", "op.getPtr(), op.getOffset());", "the inner offset added twice")
expr("both", COMBINE, "arith::AddIOp::create(rewriter, op.getLoc(), scalarOf(a, rewriter), scalarOf(b, rewriter));", "scalarOf(b, rewriter)",
     "scalarOf(a, rewriter)", "x + a + b becomes x + a + a")
expr("both", COMBINE, "(op.getOther() && !isSplat(op.getOther())))\n      return failure();\n    Value mask = op.getMask() ? scalarOf(op.getMask(), rewriter) : Value();",
     "op.getMask() ? scalarOf(op.getMask(), rewriter) : Value()", "Value()", "a load of one address loses its mask")
expr("both", COMBINE, "if (!load || !load.getMask() || load.getMask() != op.getCondition() || !load->hasOneUse() ||",
     "load.getMask() != op.getCondition() ||", "false ||", "a select by another condition becomes the load's other")
expr("both", COMBINE, "!(matchPattern(dot.getC(), m_Zero()) || matchPattern(dot.getC(), m_PosZeroFloat())))",
     "!(matchPattern(dot.getC(), m_Zero()) || matchPattern(dot.getC(), m_PosZeroFloat()))", "false",
     "a sum replaces an accumulator that is not zero")
expr("both", COMBINE, "rewriter.replaceOpWithNewOp<AddPtrOp>(op, op.getType(), base, inner.getOffset());", "inner.getOffset()", "op.getOffset()",
     "the offset that varies lost where a uniform one moves before it")

# The integer analysis: widths and alignments of accesses.
ANALYSIS = "src/transforms/IntegerAnalysis.cpp"
expr("cuda", ANALYSIS, "length = commonLength(length, info->constancy(d), sizes[d]);", "info->constancy(d)", "sizes[d]",
     "loaded values believed constant")
expr("cuda", ANALYSIS, ": Run{sizes[d], 0, in[0]->dims[d].divisibility};", "in[0]->dims[d].divisibility", "kAnyDivisibility",
     "a broadcast number believed divisible by everything")
expr("cuda", ANALYSIS, "info.dims[d] = in[0]->dims[trans.getOrder()[d]];", "trans.getOrder()[d]", "d", "runs not transposed")
expr("cuda", ANALYSIS, "info.dims[0] = normalized({sizes[0], 1, powerOfTwoIn(start)}, sizes[0], 32);", "powerOfTwoIn(start)", "kAnyDivisibility",
     "a range believed to start at a multiple of everything")
expr("cuda", ANALYSIS, "info.dims[0].divisibility = std::min(lower->info->divisibility(), step->info->divisibility());",
     "std::min(lower->info->divisibility(), step->info->divisibility())", "step->info->divisibility()",
     "loop indices believed as divisible as the step")
expr("cuda", ANALYSIS, "int64_t length = std::gcd(std::gcd(in[0]->dims[d].length, in[1]->dims[d].length), seam);", "std::gcd(std::gcd(in[0]->dims[d].length, in[1]->dims[d].length), seam)",
     "sizes[d]", "runs straddle the seam of a concatenation")
expr("cuda", ANALYSIS, "std::min(divisibilityOfElements(a.run), divisibilityOfElements(b.run));", "std::min(divisibilityOfElements(a.run), divisibilityOfElements(b.run))",
     "std::max(divisibilityOfElements(a.run), divisibilityOfElements(b.run))", "x | y believed as divisible as either")

# The CPU target.
MASKS = "src/targets/cpu/emit/Masks.cpp"
expr("cpu", "src/targets/cpu/emit/Loops.cpp", "Value last = k.e.add(index, k.e.i64(segment.width));", "segment.width", "segment.width - 1",
     "the last lane of a chunk is not checked")
expr("cpu", MASKS, "case Predicate::sgt:\n    return Predicate::slt;", "Predicate::slt", "Predicate::sle", "a mirrored > gains equality")
expr("cpu", MASKS, "distance = e.add(distance, e.i64(1));", "e.i64(1)", "e.i64(2)", "a mask of <= believed on for one element more")
POINT = "src/targets/cpu/emit/Point.cpp"
expr("cpu", POINT, "result.erase(result.begin() + expand.getAxis());", "expand.getAxis()", "0", "expand_dims drops the first coordinate")
expr("cpu", POINT, "result[from] = point[d];", "result[from] = point[d]", "result[d] = point[from]", "a permutation applied backwards")
COMBINER = "src/ir/tile/Combiner.cpp"
expr("both", COMBINER, "return integer(APInt::getSignedMinValue(bits));", "APInt::getSignedMinValue(bits)",
     "APInt::getZero(bits)", "the neutral element of a signed maximum is 0")
expr("both", COMBINER, "return integer(APInt::getSignedMaxValue(bits));", "APInt::getSignedMaxValue(bits)",
     "APInt::getAllOnes(bits)", "the neutral element of a signed minimum is -1")
expr("both", COMBINER, "return integer(APInt::getAllOnes(bits));", "APInt::getAllOnes(bits)",
     "APInt::getSignedMaxValue(bits)", "the neutral element of & lacks its top bit")
expr("cpu", "src/targets/cpu/emit/Reduce.cpp", "right.push_back(commutative ? i + width / 2 : 2 * i + 1);", "2 * i + 1", "(2 * i + 2) % width",
     "lanes combined with the wrong neighbour")
TENSORS = "src/targets/cpu/emit/Tensors.cpp"
expr("cpu", TENSORS, "SmallVector<Value> values = combineScalars(k, combiner, before, load(loop.getInductionVar()));",
     "combineScalars(k, combiner, before, load(loop.getInductionVar()))", "combineScalars(k, combiner, load(loop.getInductionVar()), before)",
     "operands of a scan's combiner exchanged")
expr("cpu", TENSORS, "start += shape[op.getDim()];", "shape[op.getDim()]", "shape[0]", "the second part of cat at the size of dimension 0")
expr("cpu", TENSORS, "place.back() = k.e.i64(1);\n    writeElement(k, target, place, rhs);", "place, rhs", "place, lhs", "join writes its left operand twice")
expr("cpu", TENSORS, "place[axis] = reverse ? k.e.sub(k.e.i64(shape[axis] - 1), position) : position;", "reverse ?", "false ?",
     "scans from the end go from the beginning")
ELEMENTS = "src/targets/cpu/emit/Elements.cpp"
expr("cpu", ELEMENTS, "if (!stride || width == 1 || Emit::constant(stride) == 0)\n      return {Access::Scalar", "Emit::constant(stride) == 0", "Emit::constant(stride) == size",
     "neighbouring elements taken for one")
expr("cpu", ELEMENTS, "int64_t start = cast<tile::RangeOp>(op).getStart();", "cast<tile::RangeOp>(op).getStart()", "int64_t(0)", "ranges start at 0")
expr("cpu", ELEMENTS, "return k.e.maskedStore(element, place.address, value, k.e.splat(mask, width));\n  }", "k.e.splat(mask, width)",
     "k.e.splat(k.e.integer(k.b.getI1Type(), 1), width)", "a vector store without its mask")
expr("cpu", ELEMENTS, "              mask ? k.e.splat(mask, width) : Value());\n}", "mask ? k.e.splat(mask, width) : Value()", "Value()", "a scatter without its mask")
expr("cpu", ELEMENTS, "int64_t stride = buffer.stride(d);", "buffer.stride(d)", "buffer.stride(0)", "row-major strides from the wrong size")
FORMS = "src/targets/cpu/emit/Forms.cpp"
expr("cpu", FORMS, "if (!cannotWrap(form)) {\n    auto [low, high] = bounds(form, isUnsigned);", "!cannotWrap(form)", "false", "no check for offsets that wrap")
expr("cpu", FORMS, "result.base = negate ? k.e.sub(lhs.base, rhs.base)", "k.e.sub(lhs.base, rhs.base)", "k.e.sub(rhs.base, lhs.base)", "a difference of bases exchanged")
expr("cpu", FORMS, "form.strides[d] = e.mul(stride, in[1].base);", "e.mul(stride, in[1].base)", "stride", "a product does not scale the stride")
expr("cpu", FORMS, "!require(k.e.cmp(arith::CmpIPredicate::eq, quotient, last)))", "arith::CmpIPredicate::eq", "arith::CmpIPredicate::sle",
     "a remainder believed affine across a multiple")
LOOPS = "src/targets/cpu/emit/Loops.cpp"
expr("cpu", LOOPS, "result.push_back({begin, extent - begin, 1});", "extent - begin, 1", "extent - begin - (begin > 0), 1", "the last element of a tail left out")
expr("cpu", LOOPS, "total = k.e.combine(combiner, total, partial, 1);", "k.e.combine(combiner, total, partial, 1)", "partial",
     "the first part of a row forgotten")
expr("cpu", LOOPS, "if (step.shape[axis] > 1)\n             loop(1, step.shape[axis], 1, carried, body);", "loop(1, step.shape[axis], 1, carried, body)", "loop(1, step.shape[axis] - 1, 1, carried, body)",
     "a reduction of columns leaves out the last row")
expr("cpu", LOOPS, "partial = k.e.combine(combiner, partial, values, Emit::widthOf(values.front()));", "k.e.combine(combiner, partial, values, Emit::widthOf(values.front()))",
     "k.e.combine(combiner, values, partial, Emit::widthOf(values.front()))",
     "chunks of a row combined in the wrong order")
PLAN = "src/targets/cpu/emit/Plan.cpp"
expr("cpu", PLAN, "if (root.kind == Root::Store)\n        last = std::max(last, position[root.op]);", "root.kind == Root::Store", "false",
     "a load moves behind a store")
expr("cpu", PLAN, "if (position[load] > firstStore)\n      return false;", "position[load] > firstStore", "false", "a load behind a store joins its loop")
ELEMENTWISE = "src/targets/cpu/emit/Elementwise.cpp"
expr("cpu", ELEMENTWISE, "product = arith::ShRUIOp::create(b, loc, product, integer(wide, bits));", "integer(wide, bits)", "integer(wide, bits - 1)",
     "the high half of a product shifted by one bit")
CONVERSIONS = "src/targets/cpu/conversions/Conversions.cpp"
expr("cpu", CONVERSIONS, "(bits + 0x7fff + (top & 1)) >> 16;", "(bits + 0x7fff + (top & 1)) >> 16", "(bits + 0x8000) >> 16", "bf16 rounds ties up")
expr("cpu", CONVERSIONS, "rebased = rebased + ((int64_t(1) << (shift - 1)) - 1) + ((a >> shift) & 1);", "((a >> shift) & 1)", "((a >> shift) & 0)", "narrow floats round ties down")
expr("cpu", CONVERSIONS, "double quantise = twoTo(smallest - type.mantissaBits + 23);", "+ 23", "+ 22", "subnormals of narrow floats get one bit too many")
expr("cpu", CONVERSIONS, "double smallest = twoTo(1 - type.bias());\n  Lane subnormal", "twoTo(1 - type.bias())", "twoTo(-type.bias())", "subnormals of 8-bit floats read too large")
expr("cpu", CONVERSIONS, "code = l.select(code > largest, largest, code);", "l.select(code > largest, largest, code)", "code", "no saturation of narrow floats")
expr("cpu", CONVERSIONS, "return fromF32(l, truncateF64(l, x, !element.isF32()), element, towardsZero).get();", "!element.isF32()", "false", "double to narrow rounded after a truncation")
ATOMIC = "src/targets/cpu/emit/Atomic.cpp"
expr("cpu", ATOMIC, "old = rmw(isMax ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min, asInteger);", "isMax ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min",
     "isMax ? LLVM::AtomicBinOp::umax : LLVM::AtomicBinOp::umin", "float maximum of positive numbers by unsigned bits")
expr("cpu", ATOMIC, "return rmw(LLVM::AtomicBinOp::umax, value);", "LLVM::AtomicBinOp::umax", "LLVM::AtomicBinOp::max", "unsigned atomic maximum signed")
expr("cpu", ATOMIC, "auto branch = scf::IfOp::create(k.b, k.e.loc, TypeRange{k.e.lower(element)}, in.back(), true);", "in.back()", "k.e.integer(k.b.getI1Type(), 1)",
     "masked atomics run in every lane")
DOT = "src/targets/cpu/dot/Dot.cpp"
expr("cpu", "src/targets/cpu/dot/DotBuilder.h", "steps(index(whole), plan.k - whole, sums);", "plan.k - whole", "plan.k - whole - (plan.k > 16)", "the last step of K left out")
expr("cpu", DOT, "blocks(plan.longBlocks * (plan.rows + 1), plan.rowBlocks - plan.longBlocks, plan.rows);", "plan.longBlocks * (plan.rows + 1)", "plan.longBlocks * plan.rows",
     "blocks of rows overlap")
expr("cpu", DOT, "return arith::ExtSIOp::create(b, loc, wide(accumulator, width), value);", "arith::ExtSIOp::create(b, loc, wide(accumulator, width), value)",
     "Value(arith::ExtUIOp::create(b, loc, wide(accumulator, width), value))", "int8 products unsigned")
expr("cpu", DOT, "int64_t column = plan.panels * plan.panelWidth;", "plan.panels * plan.panelWidth", "0", "the narrow panel at column 0")

# The GPU target: layouts, shared memory, barriers, loops.
CONVERSION = "src/layout/Conversion.cpp"
expr("cuda", CONVERSION, "plan.rounds.push_back({reg ^ combine(plan.sendLane, source), source,", "reg ^ combine(plan.sendLane, source)", "reg",
     "a round of shuffles forgets what the lane that it reads sends")
expr("cuda", CONVERSION, "plan.receiveLane[lane] = combine(addReceive, added);", "combine(addReceive, added)", "0", "shuffled values stay in the register they came for")
BARRIERS = "src/gpu/shared/InsertBarriers.cpp"
expr("cuda", BARRIERS, "writes.meets(state.read))\n    barrierBefore", "writes.meets(state.read)", "false", "no barrier between reading and overwriting")
expr("cuda", BARRIERS, "else if (decided == Barrier::Block || reads.meets(state.written) ||", "reads.meets(state.written)", "false", "no barrier between writing and reading")
expr("cuda", BARRIERS, "    if (grown == head)\n      break;\n    head = std::move(grown);\n  }\n  APInt lower, upper;", "grown == head", "true",
     "accesses of the last iteration forgotten")
ALLOCATE = "src/gpu/shared/AllocateShared.cpp"
expr("cuda", ALLOCATE, "block.end = std::max(block.end, to);", "std::max(block.end, to)", "block.end > block.begin ? block.end : to",
     "a buffer's life ends at its first use")
expr("cuda", ALLOCATE, "if (begin < block.begin || end > block.end) {", "begin < block.begin || end > block.end", "false", "a buffer's life ends before the loop that reads it again")
AXIS = "src/gpu/layouts/AxisPlan.cpp"
expr("cuda", AXIS, "row |= (reg >> bit & 1) << out++;", "(reg >> bit & 1) << out++", "(reg >> bit & 1) << bit", "rows of partial results numbered with gaps")
REDUCE_EMIT = "src/gpu/emit/Reduce.cpp"
NV_INTRINSICS = "src/targets/nvidia/emit/Intrinsics.cpp"
expr("cuda", NV_INTRINSICS, "return Intrinsic::nvvm_redux_sync_umax;", "Intrinsic::nvvm_redux_sync_umax", "Intrinsic::nvvm_redux_sync_max",
     "unsigned maximum of a warp signed")
expr("cuda", REDUCE_EMIT, "bool right = !commutes && plan.axisIndex(reg) >> step.bit & 1;", "plan.axisIndex(reg) >> step.bit & 1",
     "(~plan.axisIndex(reg) >> step.bit & 1)", "registers of ordered reductions combined from the right")
expr("cuda", REDUCE_EMIT, "llvm::Value *swapped = e.b.CreateSelect(laneIsRight, h, l);", "laneIsRight, h, l", "laneIsRight, l, h", "lanes of ordered reductions combined in any order")
expr("cuda", REDUCE_EMIT, "column[p].push_back(loaded[k][row * partials + p]);", "row * partials + p", "p", "partial results of row 0 for all rows")
SCAN_EMIT = "src/gpu/emit/Scan.cpp"
expr("cuda", SCAN_EMIT, "return bool(plan.axisIndex(reg) >> bit & 1) != op.getReverse();", "!= op.getReverse()", "!= false", "reverse scans take the wrong side in registers")
expr("cuda", SCAN_EMIT, "if (p + 1 < partials || wantTotals)", "p + 1 < partials", "p + 2 < partials", "the last prefix of the warps left out")
expr("cuda", SCAN_EMIT, "auto place = [&](unsigned p) { return op.getReverse() ? partials - 1 - p : p; };", "op.getReverse() ?", "false ?", "warps of reverse scans in order")
expr("cuda", SCAN_EMIT, "carry.values = select(onRight, extended, carry.values);", "onRight, extended, carry.values", "onRight, carry.values, extended", "lanes of a scan take the other side's prefix")
SHARED = "src/gpu/emit/SharedAccess.cpp"
expr("cuda", SHARED, "uint32_t constant = (bytes & ~reach) + displacement;", "(bytes & ~reach)", "bytes", "parts of an address counted twice")
expr("cuda", SHARED, "offset = e.b.CreateXor(offset, mixed);", "e.b.CreateXor(offset, mixed)", "e.b.CreateAdd(offset, e.i32(mixed))", "swizzled addresses added instead of xored")
expr("cuda", SHARED, "fromStored(e, e.b.CreateExtractElement(elements, uint64_t(j)), access.move.element);", "uint64_t(j)", "uint64_t(words - 1 - j)", "halves of a word of a matrix exchanged")
NV_MEMORY = "src/targets/nvidia/emit/Memory.cpp"
expr("cuda", NV_MEMORY, "predicate = both(e, predicate, owner);\n    Values elements;", "both(e, predicate, owner)", "owner", "stores without their masks")
expr("cuda", NV_MEMORY, "other.push_back(load.getOther() ? e.get(load.getOther())[reg]", "e.get(load.getOther())[reg]", "e.get(load.getOther())[group[0]]", "one `other` for a whole vector")
GLOBAL_EMIT = "src/gpu/emit/GlobalAccess.cpp"
expr("cuda", GLOBAL_EMIT, "distance += run.step * int64_t(core[d] & within);", "run.step", "int64_t(1)", "the step of a run forgotten in the distance of registers")
NV_ATOMIC = "src/targets/nvidia/emit/Atomic.cpp"
expr("cuda", NV_ATOMIC, "case AtomicKind::UMin:\n    return \"min.u\" + size;", "\"min.u\"", "\"min.s\"", "unsigned atomic minimum signed")
expr("cuda", NV_ATOMIC, "instruction(e, atomic, (isMax ? \"max.s\" : \"min.s\") + size, words, address,", "\"max.s\"", "\"max.u\"", "float atomic maximum by unsigned bits")
NV_MMA = "src/targets/nvidia/emit/DotMma.cpp"
expr("cuda", NV_MMA, "bWords.push_back(b.at(batch, column, k0 + kHalf));", "k0 + kHalf", "k0", "the second half of B's fragment is the first again")
expr("cuda", NV_MMA, "regs.append({map.at(batch, below, column), map.at(batch, below, column + next)});", "map.at(batch, below, column), map.at(batch, below, column + next)",
     "map.at(batch, below, column + next), map.at(batch, below, column)", "columns of the lower rows of a fragment exchanged")
NV_WGMMA = "src/targets/nvidia/emit/WgmmaDescriptor.cpp"
expr("cuda", NV_WGMMA, "result.bits = uint64_t(found.leading / 16) << 16 | uint64_t(found.stride / 16) << 32 |", "uint64_t(found.leading / 16) << 16 | uint64_t(found.stride / 16) << 32",
     "uint64_t(found.stride / 16) << 16 | uint64_t(found.leading / 16) << 32", "distances of a descriptor exchanged")
expr("cuda", NV_WGMMA, "result.kMajor = found.kMajor;", "found.kMajor", "true", "a transposed operand not announced")
NV_WG = "src/targets/nvidia/emit/DotWgmma.cpp"
expr("cuda", NV_WG, "return map.at(0, tile.row + 8 * (i / 2 % 2), tile.column + 8 * (i / 4) + i % 2);", "8 * (i / 2 % 2)", "8 * (i / 2 % 2 == 0)", "rows of an accumulator fragment exchanged")
CAST_EMIT = "src/gpu/emit/Casts.cpp"
expr("cuda", CAST_EMIT, "results.push_back(b.CreateTrunc(b.CreateLShr(codes, 8), b.getInt8Ty()));", "b.CreateLShr(codes, 8)", "codes", "the second of two 8-bit floats is the first")
expr("cuda", CAST_EMIT, "llvm::Value *lost = e.b.CreateFCmpUNE(e.b.CreateFPExt(result, e.b.getDoubleTy()), value);", "e.b.CreateFCmpUNE(e.b.CreateFPExt(result, e.b.getDoubleTy()), value)",
     "e.b.CreateFCmpOEQ(e.b.CreateFPExt(result, e.b.getDoubleTy()), value)",
     "bits lost from a double are not noticed")
ELEMENT_EMIT = "src/gpu/emit/Elementwise.cpp"
expr("cuda", ELEMENT_EMIT, ".Case<arith::UIToFPOp>([&](auto) { return b.CreateUIToFP(in[0], result); })", "b.CreateUIToFP(in[0], result)", "b.CreateSIToFP(in[0], result)",
     "unsigned integers to floats as signed ones")
expr("cuda", ELEMENT_EMIT, "if (isNatural(op->getOperand(0)) && isNatural(op->getOperand(1)))", "isNatural(op->getOperand(0)) &&", "true &&", "a negative dividend divided unsigned")
expr("cuda", ELEMENT_EMIT, "llvm::Value *wide = e.b.CreateSExt(offset, e.b.getInt64Ty());", "e.b.CreateSExt(offset, e.b.getInt64Ty())", "e.b.CreateZExt(offset, e.b.getInt64Ty())", "offsets zero-extended")
PIPELINE = "src/gpu/schedule/PipelineLoops.cpp"
expr("cuda", PIPELINE, "arith::MulIOp::create(builder, loc, loop.getStep(), constant(by, type));", "constant(by, type)", "constant(by + 1, type)",
     "the last iteration is not fetched ahead")
expr("cuda", PIPELINE, "arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, next, constant(slots, i32));", "constant(slots, i32)", "constant(slots + 1, i32)",
     "the ring of slots is one too long")

# Rooms that had none.
SORTING = "src/prelude/sorting.py"
text("both", SORTING, "        turned = None if size == 2 * k else (index & k) != 0\n", "        turned = None\n",
     "later rounds of topk sort all pieces the same way")
FLOAT8 = "src/prelude/float8.py"
text("both", FLOAT8, "code = where(code == 0, code, code | negative)", "code = code | negative", "a negative zero of a type that has none")
CPU_SCAN = "src/targets/cpu/emit/Scan.cpp"
expr("cpu", CPU_SCAN, "chosen.push_back(i < distance ? i : width + i);", "i < distance ?", "i <= distance ?",
     "a lane of a chunk's scan left as it was")
CPU_DOT_STEP = "src/targets/cpu/emit/DotStep.cpp"
expr("cpu", CPU_DOT_STEP, "!c || c.base != sum.base) {", "c.base != sum.base", "false", "an accumulator that lies elsewhere is not copied")
MASKED = "src/targets/cpu/codegen/MaskedAccesses.cpp"
expr("cpu", MASKED, "uint64_t bytes = uint64_t(lane) * access.elementBytes();", "uint64_t(lane) * access.elementBytes()", "uint64_t(lane)",
     "the only lane that is stored at a distance of bytes")
CPU_CONTROL = "src/targets/cpu/emit/Control.cpp"
expr("cpu", CPU_CONTROL, "result.push_back(lowered[position + 1]);", "lowered[position + 1]", "lowered[position]",
     "the two memories of a carried block become one")
FRONT_LOOPS = "src/frontend/loops.cpp"
expr("both", FRONT_LOOPS, "bool isUnsigned = !isSignedInt(bounds.type.scalar);\n  auto loop = mlir::scf::ForOp", "!isSignedInt(bounds.type.scalar)", "false",
     "bounds of unsigned ranges compared signed")
FRONT_SHAPE = "src/frontend/builtins/shape.cpp"
expr("both", FRONT_SHAPE, "if (*axis < 0)\n    *axis += rank;\n  for (int64_t dim = 0;", "*axis += rank", "*axis = 0",
     "negative axes of a gather mean the first")
FRONT_MEMORY = "src/frontend/builtins/memory.cpp"
expr("both", FRONT_MEMORY, "auto converted = s.cast(*tensor, isFlag ? DType::Int1 : type.scalar, at);", "isFlag ? DType::Int1 : type.scalar",
     "isFlag ? DType::Int8 : type.scalar", "numbers stored as bools keep their low byte")
SIMPLIFY = "src/transforms/SimplifyLoops.cpp"
expr("both", SIMPLIFY, "scalar = arith::ExtSIOp::create(builder, loc, group.scalar, scalar);", "arith::ExtSIOp::create(builder, loc, group.scalar, scalar)",
     "Value(arith::ExtUIOp::create(builder, loc, group.scalar, scalar))", "steps of carried pointers zero-extended")
HOIST = "src/transforms/HoistInvariants.cpp"
expr("both", HOIST, "if (!counted || !hasLoad || mayWrite(loop))", "mayWrite(loop)", "false", "loads leave loops that write")
REARRANGE = "src/gpu/layouts/Rearrange.cpp"
expr("cuda", REARRANGE, "|| bottom % span >= distance)", "bottom % span >= distance", "false", "pieces that begin anywhere believed aligned")
PAD = "src/gpu/shapes/PadShapes.cpp"
expr("cuda", PAD, "(!decision.pads(shape[axis]) || (isScan && !reversed)))", "(isScan && !reversed)", "isScan", "scans from the end begin in the padding")
LINEAR = "src/layout/LinearLayout.cpp"
expr("cuda", LINEAR, "for (unsigned before = 0; before < unsigned(axis); ++before)\n    redundant >>=", "before < unsigned(axis)", "before + 1 < unsigned(axis)",
     "copies in lanes and warps looked for an axis too early")
WIDTH = "src/gpu/layouts/AccessWidth.cpp"
expr("cuda", WIDTH, "limit = std::min(limit, analysis.constancy(mask, dim));", "std::min(limit, analysis.constancy(mask, dim))", "limit",
     "accesses wider than their masks are constant")
RUNS = "src/transforms/RunArithmetic.cpp"
expr("cuda", RUNS, "block = powerOfTwoIn(wrapAdd(*value, 1));", "wrapAdd(*value, 1)", "*value", "<= n believed constant like < n")
REARRANGE_EMIT = "src/gpu/emit/Rearrange.cpp"
expr("cuda", REARRANGE_EMIT, "if (choice >> i & 1)\n          candidate", "choice >> i & 1", "choice >> bit & 1",
     "registers of a gather picked by the wrong bits of the choice")
expr("cuda", REARRANGE_EMIT, "e.barrier();\n  Values values;\n  for (unsigned reg = 0, count = ngpu::registerCount(to); reg < count; ++reg) {\n    llvm::Value *bin",
     "e.barrier()", "void()", "bins read before all elements are counted")
CONVERT_EMIT = "src/gpu/emit/Convert.cpp"
expr("cuda", CONVERT_EMIT, "e.b.CreateExtractElement(moved, uint64_t(i))", "uint64_t(i)", "uint64_t(0)", "narrow elements shuffled together all become the first")
FMA_EMIT = "src/gpu/emit/DotFma.cpp"
expr("cuda", FMA_EMIT, "auto columns = b.read(batch, map.columns(), start + k, count);", "start + k", "start",
     "columns of later steps of single threads read from the first")
LEGALISE = "src/gpu/dots/LegaliseDots.cpp"
expr("cuda", LEGALISE, "arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, end);", "arith::CmpIPredicate::slt", "arith::CmpIPredicate::sle",
     "K is filled up with a column of its own")

# Checked and debug mode: what they put into lanes, what they report.
CHECKS = "src/transforms/CheckAccesses.cpp"
DESCRIPTORS = "src/transforms/DescriptorsToPointers.cpp"
expr("modes", FRONT_MEMORY, "if (otherArg.isNone() && *mask && s.options.checked) {", "otherArg.isNone() &&", "true &&", "checked mode replaces the `other` of loads")
expr("both", DESCRIPTORS, "if (desc.getPadding() == Padding::Zero)", "desc.getPadding() == Padding::Zero", "isa<IntegerType>(desc.getElementType())",
     "floats outside of a tensor are NaN")
expr("modes", CHECKS, "arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, address,", "arith::CmpIPredicate::sle", "arith::CmpIPredicate::slt",
     "the last element of an argument is reported")
expr("modes", CHECKS, "result = arith::SubIOp::create(builder, here, a, b);", "arith::SubIOp::create(builder, here, a, b)",
     "Value(arith::AddIOp::create(builder, here, a, b))", "differences of offsets believed to overflow")
expr("modes", CHECKS, "checkBounds(choice.getFalseValue(), address, both(mask, negated(condition)), size,", "negated(condition)", "condition",
     "the side of a `where` that was not chosen is checked")
expr("modes", OPERATORS, "!asked.value_or(!evaluator.insidePrelude()))", "!evaluator.insidePrelude()", "true",
     "overflow of the library's own arithmetic is reported")
expr("modes", OPERATORS, "emitCompare(CompareOp::LtE, exact, constant(high, exact.type));", "CompareOp::LtE", "CompareOp::Lt", "the largest integer is reported as overflow")
expr("modes", OPERATORS, "!isInt(type) || info(type).bits >= 64 ||", "info(type).bits >= 64", "info(type).bits >= 32", "overflow of 32 bits is not reported")
text("modes", REDUCTION, "    return add(a, b)\n", "    return a + b\n", "sums that overflow are not reported")

# What called functions take from their callers.
CPU_FUNCTION = "src/targets/cpu/emit/Function.cpp"
expr("cpu", CPU_FUNCTION, "if (auto program = dyn_cast<tile::ProgramIdOp>(op))", "dyn_cast<tile::ProgramIdOp>(op)",
     "isa<CallSiteLoc>(op->getLoc()) ? tile::ProgramIdOp() : dyn_cast<tile::ProgramIdOp>(op)", "program ids that only called functions ask for are 0")
UNMARK = "src/transforms/UnmarkNoinline.cpp"
expr("cuda", UNMARK, "more = needsCaller(module, callee);", "needsCaller(module, callee)", "false", "functions stay that call functions with blocks")
CONTROL_EMIT = "src/gpu/emit/Control.cpp"
expr("cuda", CONTROL_EMIT, "e.set(id, {e.programId(id.getAxis())});", "e.programId(id.getAxis())",
     "id->getParentOfType<func::FuncOp>() == e.kernel ? e.programId(id.getAxis()) : static_cast<llvm::Value *>(e.i32(0))",
     "program ids in functions that stay are 0")

# What is printed and asserted, in the kernel and in called functions.
CPU_TENSORS = "src/targets/cpu/emit/Tensors.cpp"
expr("cpu", CPU_TENSORS, "{k.info, k.program, number, k.e.integer(i32, index), data.base}", "k.info, k.program, number",
     "k.info, isa<CallSiteLoc>(op.getLoc()) ? k.e.i64(0) : Value(k.program), number", "prints of called functions name program 0")
skip("cpu", CPU_TENSORS, "appendPlaces(k, call.getCaller(), places);", "reports of called functions name no calls")
expr("cpu", CPU_TENSORS, "emitFailure(k, op.getCondition(), op.getMask(), FailureKind::Assert,", "op.getMask()",
     "isa<CallSiteLoc>(op.getLoc()) ? Value() : Value(op.getMask())", "masks of assertions in called functions are forgotten")
expr("cpu", CPU_TENSORS, "bool isSigned = number >= op.getIsSigned().size() || op.getIsSigned()[number];", "op.getIsSigned()[number]",
     "op.getIsSigned()[0]", "signs of printed values are those of the first")
DEBUG = "src/frontend/builtins/debug.cpp"
CALLED = ("[&] { mlir::Operation *op = s.builder.getBlock()->getParentOp(); while (!llvm::isa<mlir::FunctionOpInterface>(op)) op = op->getParentOp(); "
          "return mlir::SymbolTable::getSymbolVisibility(op) == mlir::SymbolTable::Visibility::Private; }()")
expr("both", DEBUG, "if (!s.options.debug)", "!s.options.debug", f"!s.options.debug || {CALLED}", "assertions of called functions are left out")
expr("both", DEBUG, "if (truth->value_or(false))", "truth->value_or(false)", f"truth->value_or(false) || {CALLED}",
     "static assertions of called functions always hold")
expr("both", DEBUG, "signs.push_back(!tensor->type.isPointer && isSignedInt(tensor->type.scalar));", "isSignedInt(tensor->type.scalar)", "true",
     "unsigned integers are printed signed")
NV_DEBUG = "src/targets/nvidia/emit/Debug.cpp"
expr("cuda", NV_DEBUG, "e.when(tensor ? e.owner(tensor) : e.isFirstThread(), [&] {", "e.isFirstThread()",
     "op->getParentOfType<func::FuncOp>() == e.kernel ? e.isFirstThread() : static_cast<llvm::Value *>(nullptr)",
     "every thread prints the scalars of functions that stay")
expr("cuda", NV_DEBUG, "if (shape[d] == tensor.getDimSize(d))", "shape[d] == tensor.getDimSize(d)", "true", "padding is printed")
expr("cuda", NV_DEBUG, "fails = b.CreateAnd(fails, masks[masks.size() == 1 ? 0 : reg]);", "b.CreateAnd(fails, masks[masks.size() == 1 ? 0 : reg])",
     "fails", "masks of assertions are forgotten")
expr("cuda", NV_DEBUG, "e.string(message.str() + place.calls)", "place.calls", "std::string(\" \")", "assertions of called functions name no calls")

# Gradients: `python -m tests.generator.mutants.gradients` runs tests of tests/differentiation.
COORDINATES = "src/differentiate/Coordinates.cpp"
expr("gradients", COORDINATES, "if (isTurned || !llvm::is_contained(size, operand(user, 1)))", "isTurned ||", "false ||", "two orders of a group's rows are taken for one")
expr("gradients", COORDINATES, "require(arith::CmpIPredicate::eq, count, number(1),", "arith::CmpIPredicate::eq", "arith::CmpIPredicate::sge",
     "programs along an axis that the kernel does not use are not counted")
expr("gradients", COORDINATES, "require(arith::CmpIPredicate::eq, wide(extent),", "arith::CmpIPredicate::eq", "arith::CmpIPredicate::ne",
     "tiles in groups need a grid that they do not fill")
expr("gradients", COORDINATES, "(!width || isSame(user->getOperand(1), width));", "isSame(user->getOperand(1), width)", "true", "two divisors of a program id are taken for one")
expr("gradients", COORDINATES, "require(arith::CmpIPredicate::eq, arith::RemSIOp::create(builder, loc, extent, divisor),", "arith::CmpIPredicate::eq", "arith::CmpIPredicate::sge",
     "a grid that its rows do not fill is taken for a rectangle")
expr("gradients", COORDINATES, "takeApart(remainders, width,", "remainders, width", "remainders, count", "there are as many remainders as quotients")

OUTSIDE = "src/differentiate/Outside.cpp"
SCHEDULES = "src/differentiate/Schedules.cpp"
expr("gradients", OUTSIDE, "return load.getMask() && isFalse(load.getMask(), dim, depth - 1) &&", "isFalse(load.getMask(), dim, depth - 1)", "true",
     "masked loads are zero everywhere")
expr("gradients", OUTSIDE, "[&](auto) { return operand(0, dim) && operand(1, dim); })", "operand(0, dim) && operand(1, dim)", "operand(0, dim) || operand(1, dim)",
     "a sum is zero where one summand is")
expr("gradients", OUTSIDE, "if (!limit || !isSame(limit, bound))", "!isSame(limit, bound)", "false", "a mask with another bound keeps wrapped positions out")
expr("gradients", OUTSIDE, "return sum && !sum->base && sum->terms == position.terms;", "sum->terms == position.terms", "true", "a mask of other positions keeps wrapped positions out")
expr("gradients", SCHEDULES, "if (!carried.hasOneUse())", "!carried.hasOneUse()", "false", "sums that the loop uses before it adds are taken apart")
expr("gradients", SCHEDULES, "if (!op || op->getBlock() != loop.getBody() || !next.hasOneUse() ||", "!next.hasOneUse()", "false", "sums that the loop uses after it adds are taken apart")
expr("gradients", SCHEDULES, "return arith::AndIOp::create(builder, loc, holds, isEnough);", "holds, isEnough", "isEnough, isEnough", "schedules whose conditions do not hold are taken")
expr("gradients", SCHEDULES, "isUneven |= !isUniform(bound);", "!isUniform(bound)", "false", "loops may have other bounds in every program")
expr("gradients", SCHEDULES, "multiply(each.countOfRounds);", "each.countOfRounds", "number(builder, loc, 1, builder.getI32Type())", "only the first round of a loop has blocks")
expr("gradients", SCHEDULES, "mask = mask ? arith::AndIOp::create(builder, loc, mask, inside).getResult() : inside;", "mask, inside", "mask, mask",
     "blocks that wrap around are stored behind the end")
skip("gradients", SCHEDULES, "one->contribution = Value();", "what a tile adds stays for the next one")
expr("gradients", SCHEDULES, "if (!each.isSaved && !vanishWhereWrapped(each)) {", "!vanishWhereWrapped(each)", "false", "gradients of wrapped positions are lost")
expr("gradients", SCHEDULES, "multiply(index, widened(coordinate.extent))", "widened(coordinate.extent)", "widened(place)", "programs save in the same place")
expr("gradients", SCHEDULES, "Value offset = add(multiply(programs, number(builder, loc, each.before / size, wide)),", "each.before / size", "int64_t(0)", "all that a program saves is in one place")

expr("gradients", SCHEDULES, "holds = arith::AndIOp::create(builder, loc, holds, partner->holds);", "holds, partner->holds", "holds, holds", "conditions of a schedule's partners do not matter")
expr("gradients", OUTSIDE, "if (!position || !Outside{*position, bound}.isZero(isA ? dot.getB() : dot.getA(), otherDim))",
     "!Outside{*position, bound}.isZero(isA ? dot.getB() : dot.getA(), otherDim)", "false", "products lose what they read at wrapped positions")
skip("gradients", OUTSIDE, "load.getMaskMutable().assign(inside);", "products read behind the end in place of wrapped positions")

SIZES = "src/differentiate/TileSizes.cpp"
expr("gradients", SIZES, "return addTo(ahead, value, dim) &&", "addTo(ahead, value, dim)", "true", "blocks of rounds that do not follow one another are joined")
expr("gradients", SIZES, "llvm::all_of(ahead, [](const auto &each) { return !each.second; });", "!each.second", "true", "rounds at any distance count as consecutive")
expr("gradients", SIZES, "Value up = arith::AddIOp::create(builder, loc(), blocks.rounds, number(factor - 1, type));", "factor - 1", "int64_t(0)", "the last rounds, which fill no block, have no owner")
expr("gradients", SIZES, "left = arith::MinSIOp::create(builder, loc(), left, number(factor, type));", "left, number(factor, type)", "number(factor, type), number(factor, type)",
     "blocks of rounds that a loop does not have are read and stored")
expr("gradients", SIZES, "begin = arith::MulIOp::create(builder, loc(), part, number(size, type));", "number(size, type)", "number(0, type)", "all steps of a tile read its first positions")

PARTIAL = "src/differentiate/PartialSums.cpp"
expr("gradients", PARTIAL, "if (isa<tile::ProgramIdOp>(op) || op->getNumRegions() || !isPure(op) ||", "isa<tile::ProgramIdOp>(op)", "false",
     "rows of different programs are summed in one register")
expr("gradients", PARTIAL, "if (builder.getInsertionBlock() != &kernel.getBody().front() ||", "builder.getInsertionBlock() != &kernel.getBody().front()", "false",
     "contributions of loops and branches are summed once")
expr("gradients", PARTIAL, "Value plane = product(counts[0], counts[1])", "counts[0], counts[1]", "counts[0], counts[0]", "planes of the grid have another size")
expr("gradients", PARTIAL, "arith::DivSIOp::create(builder, loc, inPlane, counts[0])", "inPlane, counts[0]", "inPlane, counts[1]", "the second program id from the wrong size")
expr("gradients", PARTIAL, "total = product(plane, counts[2]);", "product(plane, counts[2])", "plane", "only the first plane of the grid is computed")
expr("gradients", PARTIAL, "next.push_back(arith::AddFOp::create(builder, loc, carried, sum.value));", "carried, sum.value", "sum.value, sum.value", "of programs that share a register the last remains")
skip("gradients", PARTIAL, "op->getResult(0).replaceAllUsesWith(counts[count.getAxis()]);", "programs count those that are launched")
skip("gradients", PARTIAL, "op->getResult(0).replaceAllUsesWith(ids[id.getAxis()]);", "all rounds compute the launched program")

OWNERSHIP = "src/differentiate/Ownership.cpp"
expr("gradients", OWNERSHIP, "bool isFirst = !sharesRounds[i];", "!sharesRounds[i]", "true", "rounds that share elements store them")
expr("gradients", OWNERSHIP, "(j > i && !exclude(load, other))", "j > i", "j < i", "loads that add later store")
expr("gradients", OWNERSHIP, "apart.seen()[i].fixed == apart.seen()[j].fixed)", "apart.seen()[i].fixed == apart.seen()[j].fixed", "false", "loads of the same elements both store")
skip("gradients", OWNERSHIP, "addDistance(factors, places);", "distances of whole strides are forgotten")
expr("gradients", OWNERSHIP, "if (digitOf(site) != digitOf(sites[0]))", "digitOf(site) != digitOf(sites[0])", "false", "loads may depend on programs in different ways")
expr("gradients", OWNERSHIP, "bool isProven = spare && *spare >= 0;", "*spare >= 0", "true", "strides need not reach over what is inside")
expr("gradients", OWNERSHIP, "fits = add(reach, digit.stride, digit.atom.extent - 1);", "digit.atom.extent - 1", "digit.atom.extent / 2", "lanes reach half as far")
expr("gradients", OWNERSHIP, "isMultiple &= digits[i].constantStride() % stride == 0;", "digits[i].constantStride() % stride == 0", "true", "a mask limits positions that are counted in steps")
expr("gradients", OWNERSHIP, "same(a.getUpperBound(), b.getUpperBound())", "same(a.getUpperBound(), b.getUpperBound())", "true", "loops of other lengths count as one")
expr("gradients", OWNERSHIP, "if (!digit.isInAll)", "!digit.isInAll", "false", "what is accessed outside of a loop needs no round of it")
expr("gradients", OWNERSHIP, "if (digits[i].countsDown)", "digits[i].countsDown", "false", "masks limit positions that are counted from the other end")
expr("gradients", OWNERSHIP, "if (type.getDimSize(i) > 1 &&", "type.getDimSize(i) > 1", "false", "lanes that share an element each store it")
expr("gradients", OWNERSHIP, "if (coefficient < 0 && sites.size() > 1)", "sites.size() > 1", "false", "loads in opposite directions count as one direction")

MERGE = "src/differentiate/MergeLoads.cpp"
skip("gradients", MERGE, "load.getMaskMutable().assign(runs);", "loops without rounds read")
expr("gradients", MERGE, "pointer(load.getMask()), pointer(load.getOther())", "pointer(load.getMask()), pointer(load.getOther())", "pointer(load.getPtr()), pointer(load.getOther())",
     "loads with different masks are one")

ONLINE = "src/differentiate/OnlineSums.cpp"
expr("gradients", ONLINE, "if (!sum.product || !carried.hasOneUse())", "!carried.hasOneUse()", "false", "sums that a round uses before it rescales them are plain")
expr("gradients", ONLINE, "if (!op || op->getBlock() != loop.getBody() || !next.hasOneUse() ||", "!next.hasOneUse()", "false", "sums that a round uses after it rescales them are plain")
expr("gradients", ONLINE, "if (sum.product || !isFactor(factor, online))", "!isFactor(factor, online)", "false", "any factor rescales to the maximum")
expr("gradients", ONLINE, "1e-6 * std::max(std::abs(before), std::abs(change))", "1e-6 * std::max(std::abs(before), std::abs(change))", "1e-6", "a small multiple of the maximum is none")
expr("gradients", ONLINE, "if (power < 0 && isInRound && b.kind == Degree::Factor)", "isInRound", "false", "a round divides by what may vanish beside the final maximum")
expr("gradients", ONLINE, "return Degree::sum(Degree::Factor, a, b, power);\n    bool", "a, b, power", "a, b, 1.0", "a quotient has the powers of a product")
expr("gradients", ONLINE, "return left;\n    for", "left", "Degree()", "sums of factors have none")
expr("gradients", ONLINE, "if (!begin.isSameAs(end) || begin.kind == Degree::Unknown) {", "!begin.isSameAs(end)", "false", "what a loop carries may begin to depend on the maximum")
expr("gradients", ONLINE, ": begin.kind == Degree::Same && !activity.hasTangent(maximum);", "!activity.hasTangent(maximum)", "true", "a maximum may begin with an input")
expr("gradients", ONLINE, "isKnown &= of(init).kind == Degree::Same && !activity.hasTangent(init);", "!activity.hasTangent(init)", "true", "a sum may begin with an input")
expr("gradients", ONLINE, "builder, loc, isNothing, constantOf(builder, loc, type, 1.0),\n                                    factor", "factor", "sum", "the scale is the sum, not what the rounded logarithm says")

BLOCKS = "src/differentiate/ScheduledBlocks.cpp"
expr("gradients", BLOCKS, "term.second % each.step == 0;", "term.second % each.step == 0", "true", "blocks may begin between multiples of the step")
expr("gradients", BLOCKS, "Value up = arith::AddIOp::create(builder, loc, end, number(builder, loc, each.step - 1));", "each.step - 1", "int64_t(0)", "the last block, which is not whole, has no owner")
expr("gradients", BLOCKS, "Value end = differs(lower) ? firstBehind(lower, Predicate::sgt)", "Predicate::sgt", "Predicate::sge", "the tile that begins with a block does not read it")
expr("gradients", BLOCKS, "Value begin = differs(upper) ? firstBehind(upper, Predicate::sgt)", "Predicate::sgt", "Predicate::sge", "a tile that ends before a block reads it")
expr("gradients", BLOCKS, "if (!isOfBlock(conjunct, each.owner.shared) || !llvm::is_contained(masks[chosen], conjunct))", "!isOfBlock(conjunct, each.owner.shared)", "false", "masks may differ between tiles")
expr("gradients", BLOCKS, "if (address && (address->base != own->base || address->terms != own->terms))", "address->terms != own->terms", "false", "loops may read blocks at other places")
expr("gradients", BLOCKS, "if (mask->size() > masks[chosen].size())", "mask->size() > masks[chosen].size()", "mask->size() < masks[chosen].size()", "blocks are stored with the mask of whole ones")

BOUNDS = "src/differentiate/Bounds.cpp"
expr("gradients", BOUNDS, "if (isa<arith::SubIOp>(op) && b.place)", "isa<arith::SubIOp>(op) && b.place", "false", "bounds that fall count as rising")
expr("gradients", BOUNDS, "!isAtLeast(op->getOperand(a.place ? 1 : 0), 0))", "!isAtLeast(op->getOperand(a.place ? 1 : 0), 0)", "false", "bounds times a negative number count as rising")

# Gradients again, at the end so that the numbers of the other bugs stay.
expr("gradients", OWNERSHIP, "return visit(loop.getLowerBound()) && visit(loop.getUpperBound()) && visit(loop.getStep());", "visit(loop.getUpperBound())", "true",
     "places do not follow from memory where the number of rounds does")
expr("gradients", OWNERSHIP, "(i < 0 || (visit(loop.getInitArgs()[i]) && visit(loop.getYieldedValues()[i])));", "visit(loop.getYieldedValues()[i])", "true",
     "places do not follow from memory that a loop adds to them")

expr("gradients", ONLINE, "if (dims[reduce.getAxis()] >= 0)", "dims[reduce.getAxis()] >= 0", "false", "sums over rows have the factor of one row")
expr("gradients", ONLINE, "if (known.dims != multiple.dims) {", "known.dims != multiple.dims", "false", "the maximum of a row and that of a column are taken for one")
expr("gradients", ONLINE, "a.kind = a.by.empty() ? Same : kind;", "a.by.empty()", "a.by.size() < 2", "one maximum that is left is none")

SPLIT = "src/gpu/schedule/SplitProducts.cpp"
expr("cuda", SPLIT, "arith::MinUIOp::create(b, loc, first, count);", "count", "first", "blocks behind the last iteration have some")
expr("cuda", SPLIT, "arith::SelectOp::create(b, loc, ends, bound, upper));", "ends", "none", "the last block's iterations go on behind the end")
expr("cuda", SPLIT, "Value distance = times(each, first);", "first", "rank", "pointers begin one iteration further in each block")
expr("cuda", SPLIT, "!isZero(loop.getInitArgs()[number]))", "!isZero(loop.getInitArgs()[number])", "false", "every block begins with the accumulator's first value")
expr("cuda", SPLIT, "if (!steps.back() || !loop.getResult(number).use_empty())", "!loop.getResult(number).use_empty()", "false", "what the loop carries is used behind it")
BLOCK_SUM = "src/targets/nvidia/emit/BlockSum.cpp"
expr("cuda", BLOCK_SUM, "for (unsigned blocks = 1; blocks < e.splits; blocks *= 2) {", "e.splits", "4u", "the second half of eight blocks is not added")
expr("cuda", BLOCK_SUM, "e.b.CreateSelect(isFirst, size, e.i32(0));", "size", "e.i32(2)", "of blocks that are added in turn only one is")
PICKED = "src/differentiate/PickedElements.cpp"
expr("gradients", PICKED, "left = arith::AndIOp::create(builder, loc, left, here(mask));", "arith::AndIOp::create(builder, loc, left, here(mask))", "left", "what a mask leaves out is added in the second step")
expr("gradients", PICKED, "coefficient != (isLane ? 1 : row.width)", "coefficient != (isLane ? 1 : row.width)", "false", "rows with gaps count as whole ones")
expr("gradients", PICKED, "Value covered = arith::CmpIOp::create(builder, loc, Predicate::sge, distance, number(0));", "number(0)", "number(-4)", "elements before the row count as covered")
expr("gradients", PICKED, "covered = both(covered, arith::CmpIOp::create(builder, loc, Predicate::slt, at, end));", "at, end", "begin, end", "elements behind the last round count as covered")
expr("gradients", PICKED, "covered = both(covered, inElement(row, mask, lane, variable));", "both(covered, inElement(row, mask, lane, variable))", "covered", "elements that the row's mask leaves out count as covered")
expr("gradients", PICKED, "row->isTaker = true;", "true", "false", "each load of a row adds the element")
expr("gradients", PICKED, "auto takes = number(row.isTaker);", "number(row.isTaker)", "number(false)", "the second step adds what the first one has added")
skip("gradients", PICKED, "tile::StoreOp::create(builder, loc, noteAddress(loc), yes, left);", "no program notes what it has left")
skip("gradients", PICKED, "lane = arith::SubIOp::create(builder, loc, lane, before);", "the element is looked for in the first block of a row")
expr("gradients", PICKED, "mask ? arith::AndIOp::create(builder, loc, condition, mask).getResult() : condition);", "mask ? arith::AndIOp::create(builder, loc, condition, mask).getResult() : condition",
     "mask", "a load that leaves a branch is always executed")
expr("gradients", ONLINE, "tile::elementOf(value.getType()).getIntOrFloatBitWidth() >= 32;", "tile::elementOf(value.getType()).getIntOrFloatBitWidth() >= 32", "true",
     "a logarithm that was saved in 16 bits is exact")
expr("gradients", ONLINE, "constantOf(builder, loc, base.getType(), 1.0 / factor));", "1.0 / factor", "1.0 * factor", "a multiple of the logarithm is multiplied once more")
NARROW = "src/gpu/schedule/KeepNarrow.cpp"
expr("cuda", NARROW, "return ancestor && ancestor != reduction && reduction->isBeforeInBlock(ancestor);", "reduction->isBeforeInBlock(ancestor)", "true", "values are computed again behind their uses")
expr("cuda", "src/gpu/emit/Elementwise.cpp", "out.push_back(b.CreateExtractElement(all, uint64_t(i)));", "uint64_t(i)", "uint64_t(0)", "all elements of a renewed word are the first")

TRANSPOSE = "src/differentiate/Transpose.cpp"
expr("gradients", TRANSPOSE, "|| !op->hasAttr(outputAttribute));", "!op->hasAttr(outputAttribute)", "true", "outputs are not written beside gradients")
expr("gradients", TRANSPOSE, "isWrite(op) && (areInFirstStep ||", "areInFirstStep", "false", "both steps write outputs, and the question how much is saved")
expr("gradients", TRANSPOSE, "(isLinear(op) || provenance.of(access->address).arguments.anyCommon(tangents));", "provenance.of(access->address).arguments.anyCommon(tangents)", "false",
     "zeros are stored to gradients of outputs")
expr("gradients", TRANSPOSE, "dropWritesIn(copyHere(&op), withOutputs);", "withOutputs", "false", "outputs that are stored in branches are lost")
expr("gradients", "src/differentiate/PickedElements.cpp", "transposeAll(/*withOutputs=*/true);", "/*withOutputs=*/true", "false", "a loss beside whose gradient labels are picked is not written")
expr("gradients", SCHEDULES, "recompute(body, /*withOutputs=*/true);", "/*withOutputs=*/true", "false", "outputs are not written beside schedules of two steps")
expr("gradients", "src/differentiate/Differentiate.cpp", "!kernel->hasAttr(\"tile.outputs\"))", "!kernel->hasAttr(\"tile.outputs\")", "true", "a gradient with outputs loads what it should have saved")

expr("gradients", OWNERSHIP, "|| own != strides ||", "own != strides", "false", "loads of other programs' pieces are taken for a program's own")
expr("gradients", OWNERSHIP, "|| reasoner.seen()[0].fixed != Size())", "reasoner.seen()[0].fixed != Size()", "false",
     "loads at a distance are taken for a program's own")
expr("gradients", OWNERSHIP, "for (ArrayRef<Requirement> other : alternatives)\n    oneHolds = arith::OrIOp::create(builder, loc, oneHolds, holdForAll(other));", "oneHolds, holdForAll(other)", "oneHolds, number(1, 1)",
     "one order of strides need not hold")
expr("gradients", OWNERSHIP, "if (std::optional<Size> masked = boundBefore(index)) {", "boundBefore(index)", "std::optional<Size>(constant(1))", "what is inside a program reaches one element")

expr("gradients", "src/targets/cpu/emit/Transposed.cpp", "k.transposed[value] = target;", "k.transposed[value] = target", "(std::swap(k.buffers[value], target), k.transposed[value] = target)",
     "an adjoint that a loop reads both ways is lost behind the loop")

COUNT_ROUNDS = "src/differentiate/CountRounds.cpp"
expr("gradients", COUNT_ROUNDS, "return load.getIsVolatile() ? Effect::Other : Effect::Read;", "load.getIsVolatile()", "false", "rounds that a volatile load decides are counted")
expr("gradients", COUNT_ROUNDS, "return !reads ||", "!reads", "true", "rounds are counted before a loop that writes what decides them")
expr("gradients", COUNT_ROUNDS, "map.map(value, detached(builder, value));", "detached(builder, value)", "value", "the loop that counts rounds has tangents")
expr("gradients", COUNT_ROUNDS, "next{arith::AddIOp::create(b, loc, arguments[0], one)};", "arguments[0], one", "arguments[0], zero", "no round is counted")

expr("gradients", SCHEDULES, "llvm::SaveAndRestore leftOut(unwrapped, {});", "unwrapped", "*new llvm::DenseSet<Operation *>()", "remainders that one schedule leaves out stay out of the masks of the next")
expr("gradients", SCHEDULES, "!wrapAlike(each.owner, other.owner) ||", "!wrapAlike(each.owner, other.owner)", "false", "schedules that are written together leave the remainders of each other out of their masks")
REPLAYS = "src/differentiate/TransposeLoops.cpp"
expr("gradients", REPLAYS, "carried.push_back(select(isNew, first[i], known));", "known", "first[i]", "every round of a segment runs from the state at the loop's beginning")
expr("gradients", REPLAYS, "next.push_back(select(isFirst, next[k], carried[count + k]));", "carried[count + k]", "next[k]", "the state at a segment's beginning is lost after its first round")
expr("gradients", "src/differentiate/Combiners.cpp", "matrix[place % count * count + place / count] =", "place % count * count + place / count", "place", "the matrix of a linear scan is not transposed")

RELATIVE = "src/differentiate/Relative.cpp"
RULES = "src/differentiate/Rules.cpp"
expr("gradients", RELATIVE, "return d.select(isInfinite(part), number(part, isSubtracted ? -1 : 1), quotient);",
     "d.select(isInfinite(part), number(part, isSubtracted ? -1 : 1), quotient)", "quotient", "the share of an exponential that overflows is infinity over infinity")
expr("gradients", RULES, "if (hasExponentials(d, d.x(1))) {", "hasExponentials(d, d.x(1))", "false", "slopes of sigmoids are 0 times infinity where the exponential overflows")
expr("gradients", RELATIVE, "if (!tangent || !Relative(d, false).has(operand, /*isWhole=*/false))", "!tangent", "true", "an infinite tangent meets the slope 0 of a function that has settled")
expr("gradients", RULES, "return d.subtract(numerator, d.multiply(d.t(1), d.divide(d.y(), d.x(1))));", "d.multiply(d.t(1), d.divide(d.y(), d.x(1)))",
     "d.divide(d.multiply(d.y(), d.t(1)), d.x(1))", "a quotient of 0 times one over a subnormal number")
expr("gradients", RELATIVE, "Value limit = d.divide(number(part, isSubtracted ? -1 : 1), other);", "isSubtracted ? -1 : 1", "0", "no slope in the factor of an exponential that overflows")

# The copy engine's protocol: a missing fence, transaction count, phase, slots and stores that are used again too early.
COPIES = "src/gpu/copies/TensorMaps.cpp"
skip("cuda", "src/gpu/copies/OverlapStores.cpp", "ngpu::FenceAsyncOp::create(b, loc);", "the engine stores what it may not see")
expr("cuda", COPIES, "ngpu::MBarrierExpectOp::create(b, loc, barrier, int32_t(bytes), Value());", "int32_t(bytes)", "int32_t(bytes + 16)", "an mbarrier expects more bytes than come")
expr("cuda", COPIES, "Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));", "b.getI32IntegerAttr(0)", "b.getI32IntegerAttr(1)",
     "the phase that is waited for is the one before")
skip("cuda", "src/gpu/schedule/Channels.cpp", "ngpu::MBarrierWaitOp::create(builder, loc, barrierOf(empty, put.getSlot(), loc), before, Value());",
     "a slot is filled again before the consumer has released it")
expr("cuda", "src/gpu/copies/OverlapStores.cpp", "if (!isFirstUse) {\n    ngpu::TmaStoreWaitOp", "!isFirstUse", "false", "a buffer is written again while a store reads it")
expr("cuda", "src/gpu/schedule/PipelineLoops.cpp", "ngpu::FenceAsyncOp::create(builder, loc, followsWrites(loop));", "followsWrites(loop)", "false",
     "the engine reads global memory without a fence behind ordinary stores")

# Which barriers have a fence between proxies.
BARRIERS = "src/gpu/shared/InsertBarriers.cpp"
expr("cuda", BARRIERS, "if (isa<ngpu::BufferType>(operand.getType()))\n          after.add(bytesOf(operand));", "isa<ngpu::BufferType>(operand.getType())",
     "isa<ngpu::BufferType>(operand.getType()) && !isa<ngpu::WgmmaOp>(op)", "products read what threads wrote without a fence")
expr("cuda", BARRIERS, "grown.add(findOtherProxy(region.front(), grown));", "findOtherProxy(region.front(), grown)", "findOtherProxy(region.front(), after)",
     "accesses of the next iteration need no fence at the end of one")
expr("cuda", BARRIERS, "before.add(region.empty() ? after : findOtherProxy(region.front(), after));", "findOtherProxy(region.front(), after)",
     "(findOtherProxy(region.front(), after), Intervals())", "accesses of the other proxy in a branch need no fence before it")

# Bounds of floats: reciprocals of denominators, exponentials of softmax.
FLOATS = "src/ir/tile/FloatBounds.cpp"
expr("gradients", FLOATS, ".Case<math::AbsFOp, math::ExpOp, math::Exp2Op>([](auto) { return 0.0; })", "0.0", "1.0", "the reciprocal of a subnormal denominator is infinite")
expr("gradients", RULES, "Value quotient = isOne(d.x(0)) ? over : d.multiply(d.x(0), over);", "isOne(d.x(0))", "true", "a slope in the denominator lacks the numerator")
