// Dots: operands are brought into scratch memory in the accumulating type, the product is
// accumulated there by the micro-kernel. Inside a loop over K the carried accumulator's buffer is
// the result's buffer, so that nothing but the multiply-adds touches it.
#include "targets/cpu/dot/Dot.h"

#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
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

static DotType typeOf(tile::DotOp op) {
  Type element = cast<RankedTensorType>(op.getA().getType()).getElementType();
  return element.isF64() ? DotType::F64 : isa<IntegerType>(element) ? DotType::I8 : DotType::F32;
}

// The name of the function that does the products of this op's sizes: "dot_f32_64x32x64".
static std::string functionName(tile::DotOp op) {
  auto a = cast<RankedTensorType>(op.getA().getType()).getShape().take_back(2);
  int64_t n = cast<RankedTensorType>(op.getType()).getShape().back();
  const char *types[] = {"f32", "f64", "i8"};
  return llvm::formatv("dot_{0}_{1}x{2}x{3}", types[int(typeOf(op))], a[0], n, a[1]);
}

void countDots(Kernel &k, Operation *root) {
  root->walk([&](tile::DotOp op) {
    Kernel::Dots &dots = k.dots[functionName(op)];
    ++dots.all;
    dots.fromZero += isZero(op.getC());
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

/// The transpose of `size` vectors of `size` lanes. In each step the blocks of half the size off
/// the diagonal change places.
static void transposeSquare(Kernel &k, MutableArrayRef<Value> rows) {
  int64_t size = rows.size();
  for (int64_t half = size / 2; half; half /= 2)
    for (int64_t row = 0; row < size; ++row) {
      if (row & half)
        continue;
      Value upper = rows[row], lower = rows[row + half];
      SmallVector<int64_t> left, right;
      for (int64_t lane = 0; lane < size; ++lane) {
        left.push_back(lane & half ? size + lane - half : lane);
        right.push_back(lane & half ? size + lane : lane + half);
      }
      rows[row] = vector::ShuffleOp::create(k.b, k.e.loc, upper, lower, left);
      rows[row + half] = vector::ShuffleOp::create(k.b, k.e.loc, upper, lower, right);
    }
}

/// Writes the transpose of a matrix of `rows` x `columns` contiguous elements, square by square.
static void emitTranspose(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                          Type element) {
  int64_t bytes = tile::sizeInBytes(element),
          most = std::min<int64_t>(k.e.features.vectorBytes, 32) / bytes;
  // The square at (row, column), `size` wide.
  auto square = [&](Value row, Value column, int64_t size) {
    auto place = [&](Value base, Value first, int64_t width, Value second) {
      Value offset = k.e.add(k.e.mul(first, k.e.i64(width)), second);
      return k.e.advance(base, k.e.mul(offset, k.e.i64(bytes)));
    };
    Value from = place(source, row, columns, column), to = place(target, column, rows, row);
    SmallVector<Value> vectors;
    for (int64_t i = 0; i < size; ++i)
      vectors.push_back(k.e.load(element, k.e.advance(from, i * columns * bytes), size));
    if (size > 1)
      transposeSquare(k, vectors);
    for (int64_t i = 0; i < size; ++i)
      k.e.store(element, k.e.advance(to, i * rows * bytes), vectors[i]);
  };
  auto area = [&](int64_t firstRow, int64_t endRow, int64_t firstColumn, int64_t endColumn,
                  int64_t size) {
    if (firstRow == endRow || firstColumn == endColumn)
      return;
    auto loop = [&](int64_t first, int64_t end, function_ref<void(Value)> body) {
      auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(first), k.e.i64(end), k.e.i64(size));
      OpBuilder::InsertionGuard guard(k.b);
      k.b.setInsertionPoint(loop.getBody()->getTerminator());
      body(loop.getInductionVar());
    };
    loop(firstRow, endRow, [&](Value row) {
      loop(firstColumn, endColumn, [&](Value column) { square(row, column, size); });
    });
  };
  int64_t evenRows = rows / most * most, evenColumns = columns / most * most;
  area(0, evenRows, 0, evenColumns, most);
  area(0, evenRows, evenColumns, columns, 1);
  area(evenRows, rows, 0, columns, 1);
}

// The product of two tiles, in place, or in a function of its own where the kernel has several of
// this size: the micro-kernel is hundreds of instructions, and code is generated once for all. It
// is told whether the accumulator is 0 where both kinds occur.
static void emitProduct(Kernel &k, tile::DotOp op, const DotBlocking &plan, DotOperands operands) {
  std::string name = functionName(op);
  Kernel::Dots dots = k.dots.lookup(name);
  if (operands.aColStride != 1)
    name += "_transposed";
  if (dots.all < 2)
    return emitDot(k.b, k.e.loc, plan, operands, k.e.features);
  SmallVector<Value, 4> arguments{operands.a, operands.b, operands.c};
  if (dots.fromZero && dots.fromZero < dots.all) {
    arguments.push_back(
        arith::ConstantIntOp::create(k.b, k.e.loc, k.b.getI1Type(), operands.zeroC));
    operands.zeroC = false;
  }
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
    if (arguments.size() > 3)
      operands.fresh = entry->getArgument(3);
    emitDot(k.b, k.e.loc, plan, operands, k.e.features);
    LLVM::ReturnOp::create(k.b, k.e.loc, ValueRange());
  }
  LLVM::CallOp::create(k.b, k.e.loc, function, arguments);
}

void emitDot(Kernel &k, tile::DotOp op) {
  auto resultType = cast<RankedTensorType>(op.getType());
  auto aType = cast<RankedTensorType>(op.getA().getType());
  Type element = aType.getElementType();
  DotType type = typeOf(op);
  Type operandType = type == DotType::I8    ? element
                     : type == DotType::F64 ? element
                                            : Type(k.b.getF32Type());
  Type accumulatorType = type == DotType::I8    ? Type(k.b.getI32Type())
                         : type == DotType::F64 ? element
                                                : Type(k.b.getF32Type());
  int64_t rank = aType.getRank();
  int64_t m = aType.getDimSize(rank - 2), depth = aType.getDimSize(rank - 1);
  int64_t n = resultType.getDimSize(rank - 1);

  bool narrow = resultType.getElementType() != accumulatorType; // an f16 result
  Buffer target = k.allocate(op.getResult());
  Buffer sum = narrow ? k.allocate(resultType.clone(accumulatorType)) : target;
  bool zeroC = isZero(op.getC());
  if (!zeroC) {
    if (narrow) {
      materializeInto(k, converted(k, op, op.getC(), accumulatorType), sum);
    } else if (Buffer c = k.buffers.lookup(op.getC()); !c || c.base != sum.base) {
      materializeInto(k, op.getC(), sum);
    }
  }
  // A transposed left operand is read where it is; a transposed right one is brought into order.
  Value leftRows = transposed(k, op.getA()),
        rightRows = type == DotType::I8 ? Value() : transposed(k, op.getB());
  Buffer a = materialize(k, converted(k, op, leftRows ? leftRows : op.getA(), operandType));
  Buffer b = materialize(k, converted(k, op, rightRows ? rightRows : op.getB(), operandType));
  if (rightRows) {
    Buffer ordered = k.allocate(RankedTensorType::get({depth, n}, operandType));
    emitTranspose(k, b.base, ordered.base, n, depth, operandType);
    b = ordered;
  }

  DotBlocking plan = blockDot(type, m, n, depth, k.e.features);
  auto batches = resultType.getShape().drop_back(2);
  forEachPoint(k, batches, [&](ArrayRef<Value> indices) {
    Value batch = k.e.i64(0);
    for (auto [size, index] : llvm::zip(batches, indices))
      batch = k.e.add(k.e.mul(batch, k.e.i64(size)), index);
    auto part = [&](const Buffer &buffer, int64_t elements) {
      int64_t bytes = elements * tile::sizeInBytes(buffer.type.getElementType());
      return k.e.advance(buffer.base, k.e.mul(batch, k.e.i64(bytes)));
    };
    DotOperands operands;
    operands.a = part(a, m * depth);
    operands.b = part(b, depth * n);
    operands.c = part(sum, m * n);
    operands.aRowStride = leftRows ? 1 : depth;
    operands.aColStride = leftRows ? m : 1;
    operands.bRowStride = n;
    operands.cRowStride = n;
    operands.zeroC = zeroC;
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
