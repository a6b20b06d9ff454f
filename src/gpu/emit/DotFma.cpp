// ngpu.fma_dot: outer products in ordinary registers.
//
// A thread multiplies the rows of A and the columns of B that its part of the result has, K step by
// K step, reading both from shared memory: as many adjacent elements at once as the buffers'
// layouts allow, along K or across it. Addresses are a part that depends on the thread, a part that
// depends on the step of the loop over K, and constants, all combined by XOR within the buffer's
// core (a swizzle is an XOR); where bits cannot meet, the constant becomes the access's immediate
// offset.
#include "gpu/emit/DotOperands.h"
#include "gpu/emit/Emitter.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace nereid::gpu {

using layout::Axis;

namespace {

/// Products of a loop's body at most: what is more is done in further rounds.
constexpr int64_t kUnrolledProducts = 2048;
/// Steps of K whose operands are read together.
constexpr int64_t kStepsTogether = 4;

/// One operand: reads of its elements.
class OperandReader {
public:
  /// `layout` is the result's; `outerDim` the dimension that it shares with this operand (the last
  /// but one: A, the last: B).
  OperandReader(Emitter &e, Value buffer, RankedTensorType result, bool isA)
      : e(e), type(cast<ngpu::BufferType>(buffer.getType())), isA(isA),
        map(type.getShape(), type.getLayout().getLayout(),
            8 * tile::sizeInBytes(type.getElementType())),
        element(e.type(type.getElementType())), bytes(tile::sizeInBytes(type.getElementType())),
        base(e.scalar(buffer)) {
    const auto &layout = ngpu::layoutOf(result).getLayout();
    unsigned outer = result.getRank() - (isA ? 2 : 1);
    auto columns = [&](Axis axis) {
      llvm::SmallVector<uint32_t, 8> offsets;
      for (const layout::Coords &basis : layout.bases(axis)) {
        llvm::SmallVector<int64_t, 4> coords(basis.begin(), basis.end());
        coords[outer == coords.size() - 1 ? outer - 1 : outer + 1] = 0;
        offsets.push_back(map(coords));
        reach |= offsets.back();
      }
      return offsets;
    };
    auto lane = columns(Axis::Lane), warp = columns(Axis::Warp);
    thread = e.linear(lane, warp);
  }

  int64_t kSize() const { return map.shape()[map.shape().size() - (isA ? 1 : 2)]; }

  /// From here on elements are read `step * round` steps of K further, `round` below `rounds`.
  void moveTo(llvm::Value *round, int64_t rounds, int64_t step) {
    moved = thread;
    movedReach = reach;
    for (int64_t bit = 0; 1 << bit < rounds; ++bit) {
      int64_t distance = offset(0, 0, step << bit);
      llvm::Value *on = e.b.CreateAnd(e.b.CreateLShr(round, bit), 1);
      moved = e.b.CreateXor(moved, e.b.CreateMul(on, e.i32(distance)));
      movedReach |= distance;
    }
    addresses.clear();
  }
  void stay() {
    moved = thread;
    movedReach = reach;
    addresses.clear();
  }

  /// The elements at `outers` x `count` steps of K from `k`, step by step.
  llvm::SmallVector<Values> read(int64_t batch, llvm::ArrayRef<int64_t> outers, int64_t k,
                                 int64_t count) {
    llvm::SmallVector<Values> result(count, Values(outers.size()));
    // Bytes that one access may have: the parts that vary must be multiples of it, and so must the
    // places of the repeats and of the whole.
    int64_t core = type.getLayout().getLayout().size(Axis::Offset) * bytes;
    int64_t widest = std::min<int64_t>({16, core, type.getAlignment()});
    if (movedReach)
      widest = std::min<int64_t>(widest, movedReach & -movedReach);
    widest = std::max(widest, bytes);
    struct Element {
      int64_t within;
      unsigned step, outer;
    };
    llvm::MapVector<int64_t, llvm::SmallVector<Element, 8>> groups;
    for (unsigned step = 0; step < count; ++step)
      for (auto [i, outer] : llvm::enumerate(outers)) {
        int64_t at = offset(batch, outer, k + step);
        groups[at / widest * widest].push_back({at % widest, step, unsigned(i)});
      }
    for (auto &[start, elements] : groups) {
      int64_t width = elements.size() > 1 ? widest : bytes;
      if (width == bytes) {
        for (const Element &one : elements)
          result[one.step][one.outer] = load(element, start + one.within, bytes);
        continue;
      }
      llvm::Value *data = load(llvm::FixedVectorType::get(element, width / bytes), start, width);
      for (const Element &one : elements)
        result[one.step][one.outer] = e.b.CreateExtractElement(data, uint64_t(one.within / bytes));
    }
    return result;
  }

private:
  /// Bytes from the start of the buffer, of the part that no thread and no step changes.
  int64_t offset(int64_t batch, int64_t outer, int64_t k) const {
    llvm::ArrayRef<int64_t> shape = map.shape();
    llvm::SmallVector<int64_t, 4> coords(shape.size());
    for (unsigned dim = shape.size() - 2; dim-- > 0;) {
      coords[dim] = batch % shape[dim];
      batch /= shape[dim];
    }
    coords[shape.size() - 2] = isA ? outer : k;
    coords[shape.size() - 1] = isA ? k : outer;
    return map(coords);
  }

  llvm::Value *load(llvm::Type *what, int64_t at, int64_t alignment) {
    // The core's offset bits combine by XOR; repeats lie whole cores further.
    int64_t core = type.getLayout().getLayout().size(Axis::Offset) * bytes;
    uint32_t inCore = at % core, displacement = at / core * core;
    uint32_t meeting = inCore & movedReach ? inCore : 0;
    llvm::Value *&address = addresses[meeting];
    if (!address) {
      llvm::Value *distance = meeting ? e.b.CreateXor(moved, meeting) : moved;
      address = e.b.CreatePtrAdd(base, distance);
    }
    llvm::Value *place = address;
    if (uint32_t more = displacement + (meeting ? 0 : inCore))
      place = e.b.CreatePtrAdd(address, e.i32(more));
    return e.b.CreateAlignedLoad(what, place, llvm::Align(alignment));
  }

  Emitter &e;
  ngpu::BufferType type;
  bool isA;
  BufferMap map;
  llvm::Type *element;
  int64_t bytes;
  llvm::Value *base, *thread = nullptr, *moved = nullptr;
  uint32_t reach = 0, movedReach = 0;
  llvm::SmallDenseMap<uint32_t, llvm::Value *> addresses;
};

class FmaEmitter {
public:
  FmaEmitter(Emitter &e, ngpu::FmaDotOp op)
      : e(e), op(op), type(cast<RankedTensorType>(op.getType())), map(type),
        accumulator(e.type(type)), a(e, op.getA(), type, true), b(e, op.getB(), type, false) {}

  void emit() {
    Values acc(e.get(op.getC()));
    int64_t k = a.kSize(), core = layout::coreSize(k);
    int64_t steps = core;
    while (steps > kStepsTogether && int64_t(map.size()) * steps > kUnrolledProducts)
      steps /= 2;
    for (int64_t start = 0; start < k; start += core) {
      if (steps == core) {
        a.stay();
        b.stay();
        products(acc, start, core);
      } else {
        loop(acc, start, core / steps, steps);
      }
    }
    for (unsigned reg = 0; reg < acc.size(); ++reg)
      acc[reg] = acc[reg & ~ngpu::layoutOf(type).getLayout().freeBits(Axis::Register)];
    e.set(op.getResult(), acc);
  }

private:
  /// `rounds` times `steps` steps of K from `start`.
  void loop(Values &acc, int64_t start, int64_t rounds, int64_t steps) {
    llvm::BasicBlock *before = e.b.GetInsertBlock(), *body = e.block("products"),
                     *after = e.block("multiplied");
    e.b.CreateBr(body);
    e.b.SetInsertPoint(body);
    llvm::PHINode *round = e.b.CreatePHI(e.b.getInt32Ty(), 2);
    round->addIncoming(e.i32(0), before);
    llvm::SmallVector<llvm::PHINode *> phis;
    for (llvm::Value *&value : acc) {
      phis.push_back(e.b.CreatePHI(value->getType(), 2));
      phis.back()->addIncoming(value, before);
      value = phis.back();
    }
    a.moveTo(round, rounds, steps);
    b.moveTo(round, rounds, steps);
    products(acc, start, steps);
    llvm::Value *next = e.b.CreateAdd(round, e.i32(1), "", true, true);
    llvm::BasicBlock *end = e.b.GetInsertBlock();
    llvm::Instruction *back = e.b.CreateCondBr(e.b.CreateICmpULT(next, e.i32(rounds)), body, after);
    // The loop is here to keep the code small.
    llvm::LLVMContext &context = e.b.getContext();
    llvm::Metadata *rolled =
        llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
    llvm::MDNode *id = llvm::MDNode::getDistinct(context, {nullptr, rolled});
    id->replaceOperandWith(0, id);
    back->setMetadata(llvm::LLVMContext::MD_loop, id);
    round->addIncoming(next, end);
    for (auto [phi, value] : llvm::zip(phis, acc))
      phi->addIncoming(value, end);
    e.b.SetInsertPoint(after);
  }

  void products(Values &acc, int64_t start, int64_t steps) {
    for (int64_t batch = 0; batch < map.batches(); ++batch)
      for (int64_t k = 0; k < steps; k += kStepsTogether) {
        int64_t count = std::min(kStepsTogether, steps - k);
        auto rows = a.read(batch, map.rows(), start + k, count);
        auto columns = b.read(batch, map.columns(), start + k, count);
        for (int64_t step = 0; step < count; ++step) {
          for (llvm::Value *&value : rows[step])
            value = extend(value);
          for (llvm::Value *&value : columns[step])
            value = extend(value);
          for (auto [i, row] : llvm::enumerate(map.rows()))
            for (auto [j, column] : llvm::enumerate(map.columns())) {
              llvm::Value *&sum = acc[map.at(batch, row, column)];
              sum = multiplyAdd(rows[step][i], columns[step][j], sum);
            }
        }
      }
  }

  llvm::Value *extend(llvm::Value *value) {
    if (value->getType() == accumulator)
      return value;
    if (value->getType()->isIntegerTy())
      return e.b.CreateSExt(value, accumulator);
    return e.b.CreateFPExt(value, accumulator);
  }

  llvm::Value *multiplyAdd(llvm::Value *x, llvm::Value *y, llvm::Value *sum) {
    if (accumulator->isIntegerTy())
      return e.b.CreateAdd(e.b.CreateMul(x, y), sum);
    return e.intrinsic(llvm::Intrinsic::fma, {x, y, sum}, {accumulator});
  }

  Emitter &e;
  ngpu::FmaDotOp op;
  RankedTensorType type;
  RegisterMap map;
  llvm::Type *accumulator;
  OperandReader a, b;
};

} // namespace

bool emitFmaDot(Emitter &e, Operation *op) {
  auto dot = dyn_cast<ngpu::FmaDotOp>(op);
  if (!dot)
    return false;
  FmaEmitter(e, dot).emit();
  return true;
}

} // namespace nereid::gpu
