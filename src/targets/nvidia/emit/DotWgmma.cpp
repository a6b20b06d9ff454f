// ngpu.wgmma and ngpu.wgmma_wait.
//
// All instructions of one op are one piece of inline PTX: fence, the products tile by tile and K
// step by K step, commit, and the wait unless the op is asynchronous. The accumulator's registers
// go in and come out of it tied, so that nothing touches them while products are in flight: moves
// of a register that is in flight make the assembler run the instructions one by one.
//
// A group of four warps computes tiles of 64 rows; where its blocks of A and B lie differs by the
// group's number alone and is added to the descriptors' start addresses. The number is read by a
// shuffle, which tells the assembler that it is the same in all lanes.
#include "targets/nvidia/emit/Dot.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::nvidia {

using layout::Axis;

namespace {

/// Start addresses of an operand's blocks in shared memory, as descriptors.
class SharedOperand {
public:
  /// `warpCoords`: for each bit of the warp's number from the third on, how far it moves the
  /// operand's outer dimension.
  SharedOperand(Emitter &e, Value buffer, unsigned kDim, llvm::ArrayRef<int64_t> warpCoords)
      : e(e), address(e.b.CreatePtrToInt(e.scalar(buffer), e.b.getInt32Ty())),
        map(cast<ngpu::BufferType>(buffer.getType()).getShape(),
            cast<ngpu::BufferType>(buffer.getType()).getLayout().getLayout(),
            cast<ngpu::BufferType>(buffer.getType()).getElementType().getIntOrFloatBitWidth()),
        kDim(kDim) {
    llvm::SmallVector<int64_t, 4> bytes;
    for (int64_t outer : warpCoords)
      bytes.push_back(kDim == 1 ? map(outer, 0) : map(0, outer));
    if (llvm::all_of(bytes, [](int64_t b) { return b == 0; }))
      return;
    llvm::Value *warp = e.uniformWarpId();
    llvm::Value *part = e.hoisted([&] { return groupPart(warp, bytes); });
    address = e.b.CreateAdd(address, part);
  }

  std::optional<WgmmaDescriptor> block(int64_t outer, int64_t outerCount, int64_t k,
                                       int64_t kCount) const {
    return describeBlock(map, {kDim, outer, k, outerCount, kCount});
  }

  /// The descriptor of the buffer's first block with the pattern of `descriptor`, to whose start
  /// address `descriptor.start` is still to be added.
  llvm::Value *baseOf(const WgmmaDescriptor &descriptor) {
    llvm::Value *&base = bases[descriptor.bits];
    if (!base) {
      // 14 bits of the address, in units of 16 bytes; shared memory ends far below their reach.
      llvm::Value *start = e.b.CreateAnd(e.b.CreateLShr(address, 4), 0x3FFF);
      base = e.b.CreateOr(e.b.CreateZExt(start, e.b.getInt64Ty()), e.i64(descriptor.bits));
    }
    return base;
  }

private:
  llvm::Value *groupPart(llvm::Value *warp, llvm::ArrayRef<int64_t> bytes) {
    // Usually each bit moves twice as far as the one before: one product.
    bool doubling = true;
    for (unsigned i = 0; i + 1 < bytes.size(); ++i)
      doubling &= bytes[i + 1] == 2 * bytes[i];
    llvm::Value *group = e.b.CreateLShr(warp, 2);
    if (doubling)
      return e.b.CreateMul(group, e.i32(bytes[0]));
    llvm::Value *sum = e.i32(0);
    for (auto [i, distance] : llvm::enumerate(bytes))
      if (distance)
        sum = e.b.CreateAdd(
            sum, e.b.CreateMul(e.b.CreateAnd(e.b.CreateLShr(group, i), 1), e.i32(distance)));
    return sum;
  }

  Emitter &e;
  llvm::Value *address;
  BufferMap map;
  unsigned kDim;
  llvm::SmallDenseMap<uint64_t, llvm::Value *, 2> bases;
};

/// A piece of the result that one instruction computes.
struct Tile {
  int64_t row, column, columns;
};

/// Builds the text and operands of the inline PTX.
class Code {
public:
  explicit Code(unsigned accumulators) : inputs(accumulators) {}

  std::string operand(llvm::Value *value, char constraint) {
    auto [at, isNew] = numbers.try_emplace(value, args.size());
    if (isNew) {
      args.push_back(value);
      constraints += std::string(",") + constraint;
    }
    return "$" + std::to_string(inputs + at->second);
  }

  std::string text, constraints;
  Values args;

private:
  unsigned inputs; ///< the number of the first operand
  llvm::SmallDenseMap<llvm::Value *, unsigned> numbers;
};

class WgmmaEmitter {
public:
  WgmmaEmitter(Emitter &e, ngpu::WgmmaOp op)
      : e(e), op(op), type(cast<RankedTensorType>(op.getType())), map(type),
        bElement(op.getB().getType().getElementType()),
        kCount(256 / bElement.getIntOrFloatBitWidth()), kSize(op.getB().getType().getShape()[0]),
        packed(type.getElementType().isF16()) {}

  void emit() {
    readGroups();
    SharedOperand b(e, op.getB(), 0, warpColumns);
    sharedB = &b;
    std::optional<SharedOperand> a;
    std::optional<RegisterMap> registers;
    if (isa<ngpu::BufferType>(op.getA().getType())) {
      a.emplace(e, op.getA(), 1, warpRows);
      sharedA = &*a;
    } else {
      registers.emplace(cast<RankedTensorType>(op.getA().getType()));
      registersA = &*registers;
    }
    if (!findTiles())
      return e.fail(op, "internal error: wgmma cannot read this layout of shared memory");

    // Accumulators as the instruction has them: 32-bit registers.
    llvm::ArrayRef<llvm::Value *> old = e.get(op.getC());
    bool fresh = op.getUseAcc() ? isZero(op.getUseAcc()) : isZero(op.getC());
    Values acc;
    for (const Tile &tile : tiles)
      for (unsigned i = 0; i < tile.columns / 2; i += packed ? 2 : 1)
        acc.push_back(fresh    ? llvm::PoisonValue::get(registerType())
                      : packed ? packWord(e, {old[at(tile, i)], old[at(tile, i + 1)]})
                               : old[at(tile, i)]);

    llvm::Value *useAcc = fresh ? e.i32(0) : nullptr;
    if (!fresh && op.getUseAcc())
      useAcc = e.b.CreateZExt(e.scalar(op.getUseAcc()), e.b.getInt32Ty());
    int64_t chunk = op.getPromoteK() ? llvm::alignTo(op.getPromoteK(), kCount) : kSize;
    if (chunk >= kSize) {
      // An accumulator of halves is unpacked behind, which must not happen in flight.
      acc = products(acc, 0, kSize, useAcc, !op.getAsync() || packed);
    } else {
      for (int64_t k = 0; k < kSize; k += chunk) {
        Values none(acc.size(), llvm::PoisonValue::get(registerType()));
        Values sum = products(none, k, std::min(k + chunk, kSize), e.i32(0), true);
        for (auto [i, part] : llvm::enumerate(sum)) {
          if (k == 0 && useAcc)
            acc[i] = fresh ? part
                           : e.b.CreateSelect(e.scalar(op.getUseAcc()),
                                              e.b.CreateFAdd(acc[i], part), part);
          else
            acc[i] = e.b.CreateFAdd(acc[i], part);
        }
      }
    }

    Values result(map.size());
    unsigned next = 0;
    for (const Tile &tile : tiles)
      for (unsigned i = 0; i < tile.columns / 2; ++i) {
        if (!packed) {
          result[at(tile, i)] = acc[next++];
          continue;
        }
        auto *pair = llvm::FixedVectorType::get(e.b.getHalfTy(), 2);
        llvm::Value *both = e.b.CreateBitCast(acc[next], pair);
        result[at(tile, i)] = e.b.CreateExtractElement(both, uint64_t(i % 2));
        next += i % 2;
      }
    // Copies, where there are any.
    for (unsigned reg = 0; reg < result.size(); ++reg)
      if (!result[reg])
        result[reg] = result[reg & ~ngpu::layoutOf(type).getLayout().freeBits(Axis::Register)];
    e.set(op.getResult(), result);
  }

private:
  static bool isZero(Value value) {
    return matchPattern(value, m_PosZeroFloat()) || matchPattern(value, m_Zero());
  }

  llvm::Type *registerType() {
    return type.getElementType().isF32() ? e.b.getFloatTy()
                                         : static_cast<llvm::Type *>(e.b.getInt32Ty());
  }

  /// The register of value `i` of an instruction's accumulator fragment.
  unsigned at(const Tile &tile, unsigned i) const {
    return map.at(0, tile.row + 8 * (i / 2 % 2), tile.column + 8 * (i / 4) + i % 2);
  }

  void readGroups() {
    const auto &layout = ngpu::layoutOf(type).getLayout();
    for (unsigned bit = 2; bit < layout.bits(Axis::Warp); ++bit) {
      warpRows.push_back(layout.basis(Axis::Warp, bit)[0]);
      warpColumns.push_back(layout.basis(Axis::Warp, bit)[1]);
    }
  }

  bool isFloat() const { return !bElement.isInteger(); }

  bool isInstructionN(int64_t n) const {
    return n >= 8 && n <= 256 && n % 8 == 0 && (isFloat() || n <= 32 || n % 16 == 0);
  }

  /// Cuts the result into tiles: as wide as the unit computes and B's layout lets it read.
  bool findTiles() {
    llvm::SmallVector<int64_t> rows;
    for (int64_t row : map.rows())
      if (row % 64 == 0)
        rows.push_back(row);
    llvm::SmallVector<std::pair<int64_t, int64_t>> parts; // first column, how many
    llvm::ArrayRef<int64_t> columns = map.columns();
    for (size_t i = 0; i < columns.size();) {
      // A run of columns that this thread's group has: columns 0 and 1 of every 8 are here.
      int64_t first = columns[i], end = first;
      for (; i < columns.size() && columns[i] < end + 8; ++i)
        if (columns[i] == end)
          end += 8;
      for (int64_t n = end - first; n > 0;) {
        int64_t pieces = llvm::divideCeil(n, 256);
        int64_t width = n % (8 * pieces) == 0 ? n / pieces : std::min<int64_t>(n, 256);
        while (width > 0 && !(isInstructionN(width) && readable(first, width)))
          width -= 8;
        if (width <= 0)
          return false;
        parts.push_back({first, width});
        first += width;
        n -= width;
      }
    }
    for (int64_t row : rows)
      for (auto [column, width] : parts) {
        if (sharedA)
          for (int64_t k = 0; k < kSize; k += kCount)
            if (!sharedA->block(row, 64, k, kCount))
              return false;
        tiles.push_back({row, column, width});
      }
    return !tiles.empty();
  }

  bool readable(int64_t column, int64_t width) const {
    for (int64_t k = 0; k < kSize; k += kCount)
      if (!sharedB->block(column, width, k, kCount))
        return false;
    return true;
  }

  /// Adds the products of K from `begin` to `end`; `useAcc` (an i32, null: true) for the first.
  Values products(const Values &acc, int64_t begin, int64_t end, llvm::Value *useAcc, bool wait) {
    unsigned count = acc.size();
    Code code(2 * count);
    code.text = "{\n.reg .pred first, more;\n.reg .b64 descA, descB;\nsetp.ne.b32 more, 1, 0;\n";
    std::string condition = "1";
    if (auto *constant = dyn_cast_or_null<llvm::ConstantInt>(useAcc))
      condition = constant->isZero() ? "0" : "1";
    else if (useAcc)
      condition = code.operand(useAcc, 'r');
    code.text += "setp.ne.b32 first, " + condition + ", 0;\n";
    code.text += "wgmma.fence.sync.aligned;\n";
    unsigned firstRegister = 0;
    for (const Tile &tile : tiles) {
      unsigned registers = tile.columns / (packed ? 4 : 2);
      for (int64_t k = begin; k < end; k += kCount)
        instruction(code, tile, firstRegister, registers, k, k == begin ? "first" : "more");
      firstRegister += registers;
    }
    code.text += "wgmma.commit_group.sync.aligned;\n";
    if (wait)
      code.text += "wgmma.wait_group.sync.aligned 0;\n";
    code.text += "}";

    std::string constraints;
    // Early-clobber: an operand from registers may hold the very value of the accumulator (fp16),
    // and the unit reads it while it writes: it must not be given the same registers.
    llvm::StringRef kind = registerType()->isFloatTy() ? "=&f" : "=&r";
    for (unsigned i = 0; i < count; ++i)
      constraints += (i ? "," : "") + kind.str();
    for (unsigned i = 0; i < count; ++i)
      constraints += "," + std::to_string(i);
    constraints += code.constraints + ",~{memory}";
    Values args(acc);
    args.append(code.args);
    auto *all = llvm::StructType::get(e.b.getContext(),
                                      llvm::SmallVector<llvm::Type *>(count, registerType()));
    llvm::Value *results =
        e.ptx(all, code.text, constraints, args, /*sideEffects=*/true, /*convergent=*/true);
    Values values;
    for (unsigned i = 0; i < count; ++i)
      values.push_back(e.b.CreateExtractValue(results, i));
    return values;
  }

  void instruction(Code &code, const Tile &tile, unsigned firstRegister, unsigned registers,
                   int64_t k, llvm::StringRef predicate) {
    Type aElement = tile::elementOf(contentA());
    Type c = type.getElementType();
    WgmmaDescriptor b = *sharedB->block(tile.column, tile.columns, k, kCount);
    std::string &text = code.text;
    // Computed here and not before the loop: sums of a base and a constant would take registers.
    auto describe = [&](llvm::StringRef name, SharedOperand &operand,
                        const WgmmaDescriptor &block) {
      text += "add.s64 " + name.str() + ", " + code.operand(operand.baseOf(block), 'l') + ", " +
              std::to_string(block.start / 16) + ";\n";
    };
    describe("descB", *sharedB, b);
    if (sharedA)
      describe("descA", *sharedA, *sharedA->block(tile.row, 64, k, kCount));
    text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(tile.columns) + "k" +
            std::to_string(kCount) +
            (c.isF32()   ? ".f32."
             : c.isF16() ? ".f16."
                         : ".s32.");
    text += matrixType(aElement).str() + "." + matrixType(bElement).str() + " {";
    for (unsigned i = 0; i < registers; ++i)
      text += (i ? ", $" : "$") + std::to_string(firstRegister + i);
    text += "}, ";
    bool transposeA = false;
    if (sharedA) {
      WgmmaDescriptor a = *sharedA->block(tile.row, 64, k, kCount);
      transposeA = !a.kMajor;
      text += "descA";
    } else {
      text += "{";
      for (unsigned word = 0; word < 4; ++word)
        text += (word ? ", " : "") +
                code.operand(wordOfA(tile.row + 8 * (word % 2), k + word / 2 * (kCount / 2)), 'r');
      text += "}";
    }
    text += ", descB, " + predicate.str();
    if (isFloat())
      text += ", 1, 1";
    if (bElement.getIntOrFloatBitWidth() == 16) {
      if (sharedA)
        text += transposeA ? ", 1" : ", 0";
      text += b.kMajor ? ", 0" : ", 1";
    }
    text += ";\n";
  }

  Type contentA() {
    if (auto buffer = dyn_cast<ngpu::BufferType>(op.getA().getType()))
      return buffer.getElementType();
    return op.getA().getType();
  }

  llvm::Value *wordOfA(int64_t row, int64_t k) {
    llvm::Value *&word = wordsA[registersA->at(0, row, k)];
    if (word)
      return word;
    llvm::ArrayRef<llvm::Value *> values = e.get(op.getA());
    Values elements;
    for (unsigned i = 0; i < kCount / 8; ++i)
      elements.push_back(values[registersA->at(0, row, k + i)]);
    return word = packWord(e, elements);
  }

  Emitter &e;
  ngpu::WgmmaOp op;
  RankedTensorType type;
  RegisterMap map;
  Type bElement;
  int64_t kCount, kSize;
  bool packed; ///< two f16 a register
  llvm::SmallVector<int64_t, 4> warpRows, warpColumns;
  SharedOperand *sharedA = nullptr, *sharedB = nullptr;
  RegisterMap *registersA = nullptr;
  llvm::DenseMap<unsigned, llvm::Value *> wordsA;
  llvm::SmallVector<Tile> tiles;
};

} // namespace

void emitWgmma(Emitter &e, ngpu::WgmmaOp op) {
  WgmmaEmitter(e, op).emit();
}

Values awaitProducts(Emitter &e, llvm::ArrayRef<llvm::Value *> registers, unsigned pending) {
  std::string constraints, ties;
  Values args, results(registers.begin(), registers.end());
  llvm::SmallVector<llvm::Type *> types;
  llvm::SmallVector<unsigned> tied;
  for (auto [i, reg] : llvm::enumerate(registers)) {
    // Accumulators in flight are registers of 32 bits.
    if (!reg->getType()->isFloatTy() && !reg->getType()->isIntegerTy(32))
      continue;
    ties += std::to_string(args.size()) + ",";
    constraints += reg->getType()->isFloatTy() ? "=f," : "=r,";
    args.push_back(reg);
    types.push_back(reg->getType());
    tied.push_back(i);
  }
  llvm::Type *result = e.b.getVoidTy();
  if (types.size() == 1)
    result = types[0];
  else if (!types.empty())
    result = llvm::StructType::get(e.b.getContext(), types);
  llvm::Value *all = e.ptx(result, "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";",
                           constraints + ties + "~{memory}", args, /*sideEffects=*/true,
                           /*convergent=*/true);
  for (auto [number, i] : llvm::enumerate(tied))
    results[i] = types.size() == 1 ? all : e.b.CreateExtractValue(all, number);
  return results;
}

void emitWgmmaWait(Emitter &e, ngpu::WgmmaWaitOp op) {
  Values registers;
  for (Value value : op.getValues())
    llvm::append_range(registers, e.get(value));
  Values results = awaitProducts(e, registers, op.getPending());
  llvm::ArrayRef<llvm::Value *> left = results;
  for (Value out : op.getResults()) {
    unsigned count = e.registerCount(out.getType());
    e.set(out, left.take_front(count));
    left = left.drop_front(count);
  }
}

} // namespace nereid::nvidia
