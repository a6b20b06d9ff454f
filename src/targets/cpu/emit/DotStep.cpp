// Dots: operands are brought into scratch memory as the machine's instructions take them
// (dot/Units.h), the product is accumulated there by the micro-kernel. Inside a loop over K the
// carried accumulator's buffer is the result's buffer, so that nothing but the multiply-adds
// touches it.
#include "targets/cpu/dot/Dot.h"

#include "explain/Report.h"
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"
#include "targets/cpu/emit/Packing.h"
#include "transforms/Explain.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace nereid::cpu {

// `value` with its elements converted to `element`, as a virtual tensor.
static Value converted(Kernel &k, Operation *before, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  OpBuilder b(before);
  auto target = type.clone(element);
  if (isa<IntegerType>(element))
    return arith::ExtSIOp::create(b, before->getLoc(), target, value);
  if (tile::isFloat8(type.getElementType()))
    return tile::FpCastOp::create(b, before->getLoc(), target, value);
  return arith::ExtFOp::create(b, before->getLoc(), target, value);
}

static bool isZero(Value value) {
  Attribute constant;
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    value = splat.getSrc();
  if (!matchPattern(value, m_Constant(&constant)))
    return false;
  if (auto dense = dyn_cast<SplatElementsAttr>(constant))
    constant = dense.getSplatValue<Attribute>();
  if (auto number = dyn_cast<FloatAttr>(constant))
    return number.getValue().isPosZero();
  auto integer = dyn_cast<IntegerAttr>(constant);
  return integer && integer.getValue().isZero();
}

static const DotUnit &unitOf(tile::DotOp op, const Features &features) {
  auto a = cast<RankedTensorType>(op.getA().getType());
  Type element = a.getElementType();
  // Numbers of 8 bits are as exact in bf16, and never subnormal there.
  bool isBF16 = element.isBF16() ||
                (tile::isFloat8(element) && (features.tileProducts || features.bf16MatrixProducts));
  DotType type = element.isF64()             ? DotType::F64
                 : isa<IntegerType>(element) ? DotType::I8
                 : isBF16                    ? DotType::BF16
                 : element.isF16()           ? DotType::F16
                                             : DotType::F32;
  auto shape = a.getShape().take_back(2);
  return dotUnit(type, shape[0], shape[1], features);
}

// The name of the function that does the products of this op's sizes: "dot_f32_64x32x64".
static std::string functionName(Kernel &k, tile::DotOp op) {
  auto a = cast<RankedTensorType>(op.getA().getType()).getShape().take_back(2);
  int64_t n = cast<RankedTensorType>(op.getType()).getShape().back();
  return llvm::formatv("dot_{0}_{1}x{2}x{3}", unitOf(op, k.e.features).name, a[0], n, a[1]);
}

bool startsFromZero(Kernel &k, Value init, Value argument, Value yielded) {
  if (!isAccumulation(argument, yielded) || !isZero(init))
    return false;
  auto op = yielded.getDefiningOp<tile::DotOp>();
  // Another type than that of the instructions is converted before and after each product.
  return accumulatorType(k.b.getContext(), unitOf(op, k.e.features)) ==
         tile::elementOf(op.getType());
}

static bool startsFromZero(Kernel &k, tile::DotOp op) {
  auto argument = dyn_cast<BlockArgument>(op.getC());
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : nullptr;
  if (!loop || argument.getArgNumber() == 0)
    return false;
  unsigned number = argument.getArgNumber() - 1;
  return startsFromZero(k, loop.getInitArgs()[number], argument, loop.getYieldedValues()[number]);
}

void countDots(Kernel &k, Operation *root) {
  root->walk([&](tile::DotOp op) {
    Kernel::Dots &dots = k.dots[functionName(k, op)];
    ++dots.all;
    dots.fromZero += isZero(op.getC());
    dots.fromZeroAtFirst += startsFromZero(k, op);
    Features wanted = k.e.features;
    k.usesTiles |= unitOf(op, wanted).tiles;
    wanted.tileProducts |= wanted.tileRefusal != 0;
    k.missesTiles |= wanted.tileRefusal && unitOf(op, wanted).tiles;
  });
}

/// The matrix whose transpose `value` is, if it can be used in its place: null where there is none,
/// or where the transpose itself is in memory.
static Value transposed(Kernel &k, Value value) {
  auto trans = value.getDefiningOp<tile::TransOp>();
  if (!trans || k.buffers.count(value) || trans.getOrder() != ArrayRef<int32_t>{1, 0})
    return {};
  return trans.getSrc();
}

// The product of two tiles, in place, or in a function of its own where the kernel has several of
// this size: the micro-kernel is hundreds of instructions, and code is generated once for all. It
// is told whether the accumulator is 0 where both kinds occur.
static void emitProduct(Kernel &k, tile::DotOp op, const DotBlocking &plan, DotOperands operands) {
  std::string name = functionName(k, op);
  Kernel::Dots dots = k.dots.lookup(name);
  if (operands.aColStride != 1)
    name += "_transposed";
  if (operands.bPacked)
    name += "_panels";
  if (operands.bColStride != 1)
    name += "_columns";
  name += llvm::formatv("_{0}_{1}", operands.aRowStride, operands.bRowStride);
  if (dots.all < 2)
    return emitDot(k.b, k.e.loc, plan, operands, k.e.features);
  SmallVector<Value, 4> arguments{operands.a, operands.b, operands.c};
  if (dots.fromZeroAtFirst || (dots.fromZero && dots.fromZero < dots.all)) {
    if (!operands.fresh)
      operands.fresh = arith::ConstantIntOp::create(k.b, k.e.loc, k.b.getI1Type(), operands.zeroC);
    arguments.push_back(operands.fresh);
    operands.zeroC = false;
  }
  if (Value more = operands.bias ? operands.bias : operands.edge)
    arguments.push_back(more);
  auto module = k.entryAnchor->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!function) {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToEnd(module.getBody());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(k.b.getContext()),
                                            llvm::to_vector(ValueRange(arguments).getTypes()));
    function = LLVM::LLVMFuncOp::create(k.b, k.e.loc, name, type, LLVM::Linkage::Internal);
    Block *entry = function.addEntryBlock(k.b);
    k.b.setInsertionPointToStart(entry);
    operands.a = entry->getArgument(0);
    operands.b = entry->getArgument(1);
    operands.c = entry->getArgument(2);
    if (operands.fresh)
      operands.fresh = entry->getArgument(3);
    if (operands.bias)
      operands.bias = entry->getArguments().back();
    if (operands.edge)
      operands.edge = entry->getArguments().back();
    emitDot(k.b, k.e.loc, plan, operands, k.e.features);
    LLVM::ReturnOp::create(k.b, k.e.loc, ValueRange());
  }
  LLVM::CallOp::create(k.b, k.e.loc, function, arguments);
}

namespace {

/// The operands of a dot in scratch memory, in the order of the machine's instructions.
class Operands {
public:
  Operands(Kernel &k, tile::DotOp op, const DotUnit &unit)
      : k(k), unit(unit), storage(storageType(k.b.getContext(), unit)) {
    auto type = cast<RankedTensorType>(op.getA().getType());
    int64_t rank = type.getRank();
    m = type.getDimSize(rank - 2);
    depth = type.getDimSize(rank - 1);
    n = cast<RankedTensorType>(op.getType()).getDimSize(rank - 1);
    steps = (depth + unit.group - 1) / unit.group;
    // A transposed left operand is read where it is, or its rows are interleaved; a transposed
    // right one is brought into order.
    Value left = transposed(k, op.getA());
    Value right = unit.name == StringRef("i8") ? Value() : transposed(k, op.getB());
    leftIsTransposed = bool(left);
    rightIsTransposed = bool(right);
    Value a = converted(k, op, left ? left : op.getA(), storage);
    Value leftValue = unit.biased ? biased(op, a) : a;
    if (unit.group == 1 && !left && isOwnLoad(op.getA())) {
      leftGap = gapOf(depth);
      leftBuffer = withGaps(leftValue, m, depth, leftGap);
    } else {
      leftBuffer = materialize(k, leftValue);
    }
    bool packsWhileLoading = !right && canPackWhileLoading(op.getB());
    Value b = converted(k, op, right ? right : op.getB(), storage);
    if (packsWhileLoading) {
      packWhileLoading(op, b);
    } else if (unit.group == 1 && !right && isOwnLoad(op.getB())) {
      rightGap = gapOf(n);
      rightBuffer = withGaps(b, depth, n, rightGap);
    } else {
      rightBuffer = materialize(k, b);
    }
    // One batch at a time is packed. (A transpose of more than two dimensions is none here.)
    if (unit.group == 1) {
      if (rightIsTransposed)
        packedB = k.allocate(RankedTensorType::get({depth, n}, storage));
      return;
    }
    Type word = k.b.getIntegerType(unit.wordBits());
    if (unit.tiles) {
      allocateTiles(word);
      return;
    }
    if (leftIsTransposed || depth % unit.group)
      packedA = k.allocate(RankedTensorType::get({m, steps}, word));
    if (rightIsTransposed && depth % unit.group)
      paddedB = k.allocate(RankedTensorType::get({n, steps}, word));
    if (rightBuffer && !staysInColumns())
      packedB = k.allocate(RankedTensorType::get({steps, n}, word));
    if (unit.biased)
      sums = k.allocate(RankedTensorType::get({n}, word));
  }

  /// Packs the operands of a batch. The accumulator and what concerns it is left to the caller.
  DotOperands ofBatch(Value batch, const DotBlocking &plan) {
    DotOperands operands;
    operands.a = part(k, leftBuffer, batch, m * depth);
    if (rightBuffer)
      operands.b = part(k, rightBuffer, batch, depth * n);
    if (unit.group == 1) {
      if (rightIsTransposed) {
        emitTranspose(k, operands.b, packedB.base, n, depth, storage);
        operands.b = packedB.base;
      }
    } else if (unit.tiles) {
      packTiles(operands);
    } else {
      packUnits(operands);
    }
    bool isByColumns = leftIsTransposed && !unit.tiles;
    operands.aRowStride = isByColumns ? 1 : steps + leftGap;
    operands.aColStride = isByColumns ? m : 1;
    operands.bRowStride = staysInColumns() ? 1 : unitsInRow();
    operands.bColStride = staysInColumns() ? steps : 1;
    if (unit.biased) {
      operands.bias = sums.base;
      emitColumnSums(k.b, k.e.loc, plan, operands, k.e.features);
    }
    return operands;
  }

  /// What is done to the operands before the instructions take them, for people.
  std::string packing() const {
    std::vector<std::string> steps;
    if (unit.group > 1) {
      std::string groups = "groups of " + std::to_string(unit.group) + " along K";
      if (packedA || orderedA)
        steps.push_back("left operand into rows of " + groups);
      if (paddedB || !staysInColumns())
        steps.push_back("right operand into " + groups + ", " +
                        (rightIsTransposed ? "transposed" : "rows interleaved") +
                        (unit.tiles && rightBuffer ? ", in panels of 16 columns" : ""));
    } else if (rightIsTransposed) {
      steps.push_back("right operand transposed");
    }
    if (unit.biased)
      steps.push_back("128 added to the left operand, and taken away by the sums of columns");
    return llvm::join(steps, "; ");
  }

  static Value part(Kernel &k, const Buffer &buffer, Value batch, int64_t elements) {
    int64_t bytes = elements * tile::sizeInBytes(buffer.type.getElementType());
    return k.e.advance(buffer.base, k.e.mul(batch, k.e.i64(bytes)));
  }

  int64_t m, n, depth;

private:
  /// A matrix whose rows are contiguous, that no other op wants in scratch memory as it is.
  bool isOwnLoad(Value value) const {
    auto load = value.getDefiningOp<tile::LoadOp>();
    return load && isVirtual(load) && !unit.blocks && !k.buffers.count(value) &&
           value.hasOneUse() && cast<RankedTensorType>(value.getType()).getRank() == 2 &&
           contiguousDimension(k, load.getPtr()) == 1;
  }
  /// Such a matrix with whole groups.
  bool canPackWhileLoading(Value b) const {
    return unit.group > 1 && depth % unit.group == 0 && isOwnLoad(b);
  }

  /// Elements between long rows. The rows of a matrix are then an odd number of cache lines apart,
  /// so that a few columns of all rows fall into different sets of the first-level cache.
  int64_t gapOf(int64_t columns) const {
    constexpr int64_t line = 64, longRow = 256;
    int64_t bytes = tile::sizeInBytes(storage), rowBytes = columns * bytes;
    return rowBytes >= longRow && rowBytes % (2 * line) == 0 ? line / bytes : 0;
  }
  Buffer withGaps(Value value, int64_t rows, int64_t columns, int64_t gap) {
    Buffer buffer = k.allocate(RankedTensorType::get({rows, columns + gap}, storage));
    materializeInto(k, value, buffer);
    return buffer;
  }

  /// Units of blocks take the groups of a transposed right operand as they lie in its rows.
  bool staysInColumns() const { return unit.blocks && rightIsTransposed; }

  /// From a row of B to the next one. Of tiles, whole ones, and an odd number of cache lines.
  int64_t unitsInRow() const {
    if (!unit.tiles)
      return n + rightGap;
    int64_t tiles = (n + tileSize - 1) / tileSize;
    return (tiles + (tiles % 2 == 0)) * tileSize;
  }

  /// The right operand goes to scratch memory as units, without lying there as it is first.
  void packWhileLoading(tile::DotOp op, Value b) {
    Type word = k.b.getI32Type();
    int64_t rows = unit.tiles ? int64_t(llvm::alignTo(steps, tileSize)) : steps;
    int64_t columns = unitsInRow();
    packedB = k.allocate(RankedTensorType::get({rows, columns}, word));
    if (rows != steps)
      LLVM::MemsetOp::create(k.b, k.e.loc, k.e.advance(packedB.base, steps * columns * 4),
                             k.e.integer(k.b.getI8Type(), 0), k.e.i64((rows - steps) * columns * 4),
                             false);
    materializeInto(k, unitsOf(op, b), packedB);
  }

  /// Each group of rows of a matrix as a row of words, the first row in the lowest bits.
  Value unitsOf(Operation *before, Value matrix) const {
    OpBuilder b(before);
    Location loc = before->getLoc();
    Type bits = b.getIntegerType(storage.getIntOrFloatBitWidth());
    auto part = RankedTensorType::get({steps, n}, storage);
    auto words = part.clone(b.getI32Type());
    Value all;
    for (int64_t row = 0; row < unit.group; ++row) {
      Value elements = tile::SliceOp::create(b, loc, part, matrix, ArrayRef<int64_t>{row, 0},
                                             ArrayRef<int64_t>{steps == 1 ? 1 : unit.group, 1});
      if (!isa<IntegerType>(storage))
        elements = arith::BitcastOp::create(b, loc, part.clone(bits), elements);
      Value wide = arith::ExtUIOp::create(b, loc, words, elements);
      if (row == 0) {
        all = wide;
        continue;
      }
      auto distance = DenseElementsAttr::get(
          words, b.getI32IntegerAttr(int32_t(row * storage.getIntOrFloatBitWidth())));
      Value shift = arith::ConstantOp::create(b, loc, distance);
      all = arith::OrIOp::create(b, loc, all, arith::ShLIOp::create(b, loc, wide, shift));
    }
    return all;
  }

  void packUnits(DotOperands &operands) {
    int64_t padded = steps * unit.group;
    if (leftIsTransposed)
      emitInterleave(k, operands.a, packedA.base, depth, m, storage, unit.group);
    else if (packedA)
      emitPaddedRows(k, operands.a, packedA.base, m, depth, padded, storage);
    if (packedA)
      operands.a = packedA.base;
    if (paddedB) {
      emitPaddedRows(k, operands.b, paddedB.base, n, depth, padded, storage);
      operands.b = paddedB.base;
    }
    if (staysInColumns())
      return;
    if (rightIsTransposed)
      emitTranspose(k, operands.b, packedB.base, n, steps, k.b.getI32Type());
    else if (rightBuffer)
      emitInterleave(k, operands.b, packedB.base, depth, n, storage, unit.group);
    operands.b = packedB.base;
  }

  // `steps` becomes that of whole tiles.
  void allocateTiles(Type word) {
    auto whole = [](int64_t size) { return int64_t(llvm::alignTo(size, tileSize)); };
    steps = whole(steps);
    isPaddedAlongK = depth != steps * unit.group;
    if (leftIsTransposed)
      orderedA = k.allocate(RankedTensorType::get({whole(m), depth}, storage));
    if (isPaddedAlongK || (!leftIsTransposed && m != whole(m)))
      packedA = k.allocate(RankedTensorType::get({whole(m), steps}, word));
    if (rightIsTransposed && (isPaddedAlongK || n != whole(n)))
      paddedB = k.allocate(RankedTensorType::get({whole(n), steps}, word));
    if (rightBuffer)
      packedB = k.allocate(RankedTensorType::get({whole(n), steps}, word));
    if (m != whole(m) || n != whole(n))
      edge = k.allocate(RankedTensorType::get({tileSize, tileSize}, word));
  }

  void packTiles(DotOperands &operands) {
    int64_t padded = steps * unit.group;
    if (leftIsTransposed) {
      emitTranspose(k, operands.a, orderedA.base, depth, m, storage);
      operands.a = orderedA.base;
    }
    if (packedA) {
      emitPaddedRows(k, operands.a, packedA.base, m, depth, padded, storage);
      operands.a = packedA.base;
    }
    if (paddedB) {
      emitPaddedRows(k, operands.b, paddedB.base, n, depth, padded, storage);
      operands.b = paddedB.base;
    }
    if (rightIsTransposed)
      emitTransposedPanels(k, operands.b, packedB.base, n, steps);
    else if (rightBuffer)
      emitInterleavedPanels(k, operands.b, packedB.base, depth, n, steps, storage, unit.group);
    operands.bPacked = bool(rightBuffer);
    operands.b = packedB.base;
    operands.edge = edge.base;
  }

  /// 128 added to each element: the sign bit turned over.
  static Value biased(Operation *before, Value value) {
    OpBuilder b(before);
    auto type = cast<RankedTensorType>(value.getType());
    auto sign = DenseElementsAttr::get(type, b.getI8IntegerAttr(-128));
    return arith::XOrIOp::create(b, before->getLoc(), value,
                                 arith::ConstantOp::create(b, before->getLoc(), sign));
  }

  Kernel &k;
  const DotUnit &unit;
  Type storage;
  int64_t steps, leftGap = 0, rightGap = 0;
  bool leftIsTransposed, rightIsTransposed, isPaddedAlongK = false;
  Buffer leftBuffer, rightBuffer; // all batches
  // One batch; none where it is not needed.
  Buffer orderedA, packedA, packedB, paddedB, sums, edge;
};

} // namespace

/// What the machine lacks for a faster unit, or empty.
static std::string missingUnit(const DotUnit &unit, const Features &features) {
  if (unit.type == DotType::BF16 && unit.group == 1)
    return features.isAArch64 ? "FEAT_BF16 is not there" : "AVX512-BF16 is not there";
  if (unit.type != DotType::I8 || unit.biased || unit.blocks)
    return "";
  if (!features.isAArch64)
    return "neither AVX512-VNNI nor AVX-VNNI is there";
  if (features.i8MatrixProducts)
    return ""; // one row: a matter of its shape
  return features.signedProducts ? "FEAT_I8MM is not there"
                                 : "neither FEAT_DotProd nor FEAT_I8MM is there";
}

static void explainProduct(Kernel &k, tile::DotOp op, const DotBlocking &plan,
                           std::string packing) {
  explain::Report *report = k.explanation;
  if (!report)
    return;
  auto shape = cast<RankedTensorType>(op.getType()).getShape();
  explain::ProductFact fact;
  fact.place = transforms::placeOf(op.getLoc());
  fact.shape.assign(shape.begin(), shape.end());
  fact.k = cast<RankedTensorType>(op.getA().getType()).getShape().back();
  fact.a = transforms::shapeOf(op.getA().getType()).element;
  fact.b = transforms::shapeOf(op.getB().getType()).element;
  fact.accumulator = transforms::shapeOf(op.getType()).element;
  int64_t vectors = (plan.panels ? plan.panelWidth : plan.tailWidth + plan.lanes - 1) / plan.lanes;
  fact.unit = llvm::formatv("{0}, {1}x{2} registers as accumulators", plan.unit->instructions,
                            plan.rows + (plan.longBlocks ? 1 : 0), vectors);
  if (plan.unit->tiles)
    fact.unit =
        llvm::formatv("{0}, {1}x{2} tiles as accumulators", plan.unit->instructions,
                      std::min<int64_t>(plan.rowBlocks, 2), std::min<int64_t>(plan.panels, 2));
  else
    fact.why = missingUnit(*plan.unit, k.e.features);
  fact.packing = std::move(packing);
  report->products.push_back(std::move(fact));
}

void emitDot(Kernel &k, tile::DotOp op) {
  auto resultType = cast<RankedTensorType>(op.getType());
  const DotUnit &unit = unitOf(op, k.e.features);
  Type accumulatorType = nereid::cpu::accumulatorType(k.b.getContext(), unit);
  bool narrow = resultType.getElementType() != accumulatorType; // an f16 result
  Buffer target = k.allocate(op.getResult());
  Buffer sum = narrow ? k.allocate(resultType.clone(accumulatorType)) : target;
  bool zeroC = isZero(op.getC());
  Value fresh = k.freshSums.lookup(op.getC());
  if (!zeroC && !fresh) {
    if (narrow) {
      materializeInto(k, converted(k, op, op.getC(), accumulatorType), sum);
    } else if (Buffer c = k.buffers.lookup(op.getC()); !c || c.base != sum.base) {
      materializeInto(k, op.getC(), sum);
    }
  }
  Operands both(k, op, unit);
  int64_t m = both.m, n = both.n;
  DotBlocking plan = blockDot(unit.type, m, n, both.depth, k.e.features);
  explainProduct(k, op, plan, both.packing());
  auto batches = resultType.getShape().drop_back(2);
  forEachPoint(k, batches, [&](ArrayRef<Value> indices) {
    Value batch = k.e.i64(0);
    for (auto [size, index] : llvm::zip(batches, indices))
      batch = k.e.add(k.e.mul(batch, k.e.i64(size)), index);
    DotOperands operands = both.ofBatch(batch, plan);
    operands.c = Operands::part(k, sum, batch, m * n);
    operands.cRowStride = n;
    operands.zeroC = zeroC;
    operands.fresh = fresh;
    emitProduct(k, op, plan, operands);
  });
  if (narrow)
    forEachPoint(k, resultType.getShape(), [&](ArrayRef<Value> indices) {
      Point point;
      for (Value index : indices)
        point.push_back({index, -1});
      Value value = Elements(k).read(sum, point);
      Elements(k).write(target, point,
                        k.e.convertFloat(value, accumulatorType, resultType.getElementType()));
    });
  k.buffers[op.getResult()] = target;
}

} // namespace nereid::cpu
