#include "gpu/emit/SharedAccess.h"

#include "llvm/Support/MathExtras.h"

using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// The columns of a place map towards the offset, in bytes.
llvm::SmallVector<uint32_t> offsetColumns(const PlaceMap &map, Axis from, unsigned bytes) {
  llvm::SmallVector<uint32_t> columns;
  for (unsigned bit = 0; bit < map.fromBits(from); ++bit)
    columns.push_back(map.column(from, bit, Axis::Offset) * bytes);
  return columns;
}

uint32_t sum(llvm::ArrayRef<uint32_t> columns, uint32_t index) {
  uint32_t result = 0;
  for (; index; index &= index - 1)
    result ^= columns[llvm::countr_zero(index)];
  return result;
}

/// Puts the bits of `index` at the positions `bits`.
unsigned spread(unsigned index, llvm::ArrayRef<unsigned> bits) {
  unsigned result = 0;
  for (auto [i, bit] : llvm::enumerate(bits))
    result |= (index >> i & 1) << bit;
  return result;
}

unsigned bytesOf(Emitter &e, llvm::Type *stored) {
  return stored->getPrimitiveSizeInBits() / 8;
}

/// An element's bits within a 32-bit word, and back.
llvm::Value *packWord(Emitter &e, llvm::ArrayRef<llvm::Value *> elements) {
  auto *vector = llvm::FixedVectorType::get(elements.front()->getType(), elements.size());
  llvm::Value *packed = llvm::PoisonValue::get(vector);
  for (auto [i, element] : llvm::enumerate(elements))
    packed = e.b.CreateInsertElement(packed, element, uint64_t(i));
  return e.b.CreateBitCast(packed, e.b.getInt32Ty());
}

/// Everything about one move that loads and stores share.
struct Access {
  Access(Emitter &e, const SharedMove &move)
      : move(move), map(locate(move.memory, move.distributed)), stored(storedType(e, move.element)),
        bytes(bytesOf(e, stored)), registerBytes(offsetColumns(map, Axis::Register, bytes)),
        laneBytes(offsetColumns(map, Axis::Lane, bytes)),
        warpBytes(offsetColumns(map, Axis::Warp, bytes)) {}

  const SharedMove &move;
  PlaceMap map;
  llvm::Type *stored;
  unsigned bytes;
  llvm::SmallVector<uint32_t> registerBytes, laneBytes, warpBytes;

  unsigned coreRegisters() const { return move.distributed.size(Axis::Register); }
  uint32_t offset(unsigned reg) const { return sum(registerBytes, reg); }
};

/// Calls `each(first register, offset in bytes)` for every group of registers that differ in the
/// bits `moved`, once for each offset.
template <typename Each> void forGroups(const Access &access, unsigned moved, Each each) {
  llvm::SmallDenseSet<uint32_t, 16> seen;
  for (unsigned reg = 0; reg < access.coreRegisters(); ++reg)
    if (!(reg & moved) && seen.insert(access.offset(reg)).second)
      each(reg, access.offset(reg));
}

unsigned bitMask(llvm::ArrayRef<unsigned> bits) {
  unsigned mask = 0;
  for (unsigned bit : bits)
    mask |= 1u << bit;
  return mask;
}

void storeMatrices(Emitter &e, llvm::Value *base, const Access &access, const MatrixAccess &matrix,
                   llvm::ArrayRef<llvm::Value *> registers) {
  llvm::SmallVector<uint32_t> lanes;
  for (uint32_t offset : matrix.laneOffsets)
    lanes.push_back(offset * access.bytes);
  SharedAddresses addresses(e, base, lanes, access.warpBytes);
  unsigned words = 1u << matrix.wordBits.size();
  for (unsigned repeat = 0; repeat < access.move.repeats; ++repeat)
    forGroups(
        access, bitMask(matrix.wordBits) | bitMask(matrix.matrixBits),
        [&](unsigned reg, uint32_t offset) {
          llvm::Value *address = addresses.at(offset, repeat * access.move.repeatBytes);
          address = e.b.CreatePtrToInt(address, e.b.getInt32Ty());
          Values parts;
          for (unsigned i = 0; i < matrix.matrices; ++i) {
            Values word;
            for (unsigned j = 0; j < words; ++j)
              word.push_back(toStored(
                  e, registers[repeat * access.coreRegisters() +
                               (reg | spread(i, matrix.matrixBits) | spread(j, matrix.wordBits))]));
            parts.push_back(packWord(e, word));
          }
          e.storeMatrices(address, parts, matrix.transposed);
        });
}

void loadMatrices(Emitter &e, llvm::Value *base, const Access &access, const MatrixAccess &matrix,
                  Values &registers) {
  llvm::SmallVector<uint32_t> lanes;
  for (uint32_t offset : matrix.laneOffsets)
    lanes.push_back(offset * access.bytes);
  SharedAddresses addresses(e, base, lanes, access.warpBytes);
  unsigned words = 1u << matrix.wordBits.size();
  auto *wordType = llvm::FixedVectorType::get(access.stored, words);
  for (unsigned repeat = 0; repeat < access.move.repeats; ++repeat) {
    llvm::SmallDenseMap<uint32_t, unsigned> loaded;
    unsigned moved = bitMask(matrix.wordBits) | bitMask(matrix.matrixBits);
    unsigned first = repeat * access.coreRegisters();
    forGroups(access, moved, [&](unsigned reg, uint32_t offset) {
      loaded[offset] = reg;
      llvm::Value *result = e.loadMatrices(addresses.at(offset, repeat * access.move.repeatBytes),
                                           matrix.matrices, matrix.transposed);
      for (unsigned i = 0; i < matrix.matrices; ++i) {
        llvm::Value *word = matrix.matrices == 1 ? result : e.b.CreateExtractValue(result, i);
        llvm::Value *elements = e.b.CreateBitCast(word, wordType);
        for (unsigned j = 0; j < words; ++j)
          registers[first + (reg | spread(i, matrix.matrixBits) | spread(j, matrix.wordBits))] =
              fromStored(e, e.b.CreateExtractElement(elements, uint64_t(j)), access.move.element);
      }
    });
    for (unsigned reg = 0; reg < access.coreRegisters(); ++reg)
      if (!registers[first + reg])
        registers[first + reg] =
            registers[first + (loaded[access.offset(reg & ~moved)] | (reg & moved))];
  }
}

} // namespace

SharedAddresses::SharedAddresses(Emitter &e, llvm::Value *base, llvm::ArrayRef<uint32_t> laneBytes,
                                 llvm::ArrayRef<uint32_t> warpBytes)
    : e(e), base(base), linear(nullptr) {
  for (uint32_t column : laneBytes)
    reach |= column;
  for (uint32_t column : warpBytes)
    reach |= column;
  if (reach)
    linear = e.linear(laneBytes, warpBytes);
}

llvm::Value *SharedAddresses::at(uint32_t bytes, uint32_t displacement) {
  uint32_t mixed = bytes & reach;
  llvm::Value *&start = bases[mixed];
  if (!start) {
    llvm::Value *offset = linear;
    if (mixed)
      offset = e.b.CreateXor(offset, mixed);
    start = offset ? e.b.CreateGEP(e.b.getInt8Ty(), base, offset) : base;
  }
  uint32_t constant = (bytes & ~reach) + displacement;
  return constant ? e.b.CreateConstInBoundsGEP1_32(e.b.getInt8Ty(), start, constant) : start;
}

llvm::Type *storedType(Emitter &e, llvm::Type *element) {
  if (element->isPointerTy())
    return e.b.getInt64Ty();
  if (element->isIntegerTy(1))
    return e.b.getInt8Ty();
  return element;
}

llvm::Value *toStored(Emitter &e, llvm::Value *value) {
  llvm::Type *stored = storedType(e, value->getType());
  if (value->getType() == stored)
    return value;
  if (value->getType()->isPointerTy())
    return e.b.CreatePtrToInt(value, stored);
  return e.b.CreateZExt(value, stored);
}

llvm::Value *fromStored(Emitter &e, llvm::Value *value, llvm::Type *element) {
  if (value->getType() == element)
    return value;
  if (element->isPointerTy())
    return e.b.CreateIntToPtr(value, element);
  return e.b.CreateTrunc(value, element);
}

void storeShared(Emitter &e, llvm::Value *base, const SharedMove &move,
                 llvm::ArrayRef<llvm::Value *> registers, bool allBlocks) {
  Access access(e, move);
  // Bits that the layout lacks are free as well.
  uint32_t freeLanes =
      (move.distributed.freeBits(Axis::Lane) | ~(move.distributed.size(Axis::Lane) - 1)) &
      (e.options.machine.lanes - 1);
  uint32_t freeWarps =
      (move.distributed.freeBits(Axis::Warp) | ~(move.distributed.size(Axis::Warp) - 1)) &
      ((allBlocks ? e.warpCount() : e.warpCount() / e.blockCount()) - 1);
  bool matrices =
      move.matrices && !allBlocks && e.options.machine.matrixStores && !freeLanes && !freeWarps;
  auto [vector, matrix, conflicts, cost] =
      sharedAccess(move.distributed, move.memory, access.bytes * 8, matrices);
  if (matrix)
    return storeMatrices(e, base, access, *matrix, registers);

  SharedAddresses own(e, base, access.laneBytes, access.warpBytes);
  llvm::Value *owner = nullptr;
  if (uint32_t copies = freeLanes | freeWarps << e.laneBits())
    owner = e.b.CreateICmpEQ(e.b.CreateAnd(e.threadId(), copies), e.i32(0));
  auto storeTo = [&](SharedAddresses &addresses) {
    for (unsigned repeat = 0; repeat < move.repeats; ++repeat)
      forGroups(access, bitMask(vector.registerBits), [&](unsigned reg, uint32_t offset) {
        llvm::Value *data = nullptr;
        if (vector.elements > 1)
          data = llvm::PoisonValue::get(llvm::FixedVectorType::get(access.stored, vector.elements));
        for (unsigned i = 0; i < vector.elements; ++i) {
          llvm::Value *value = toStored(
              e,
              registers[repeat * access.coreRegisters() + (reg | spread(i, vector.registerBits))]);
          data = data ? e.b.CreateInsertElement(data, value, uint64_t(i)) : value;
        }
        e.b.CreateAlignedStore(data, addresses.at(offset, repeat * move.repeatBytes),
                               llvm::Align(vector.elements * access.bytes));
      });
  };
  e.when(owner, [&] {
    if (!allBlocks || e.blockCount() == 1)
      return storeTo(own);
    e.inBlocks(base, allBlocks, [&](llvm::Value *memory) {
      SharedAddresses there(e, memory, access.laneBytes, access.warpBytes);
      storeTo(there);
    });
  });
}

unsigned sendShared(Emitter &e, llvm::Value *base, llvm::Value *barrier, const SharedMove &move,
                    llvm::ArrayRef<llvm::Value *> registers) {
  Access access(e, move);
  const unsigned lanes = e.options.machine.lanes, blocks = e.blockCount();
  uint32_t freeLanes =
      (move.distributed.freeBits(Axis::Lane) | ~(move.distributed.size(Axis::Lane) - 1)) &
      (lanes - 1);
  auto vector =
      sharedAccess(move.distributed, move.memory, access.bytes * 8, /*matrices=*/false).vector;
  SharedAddresses own(e, base, access.laneBytes, access.warpBytes);
  unsigned bytes = 0;
  auto sendTo = [&](llvm::Value *rank) {
    bytes = 0;
    for (unsigned repeat = 0; repeat < move.repeats; ++repeat)
      forGroups(access, bitMask(vector.registerBits), [&](unsigned reg, uint32_t offset) {
        Values words;
        for (unsigned i = 0; i < vector.elements; ++i) {
          llvm::Value *value =
              registers[repeat * access.coreRegisters() + (reg | spread(i, vector.registerBits))];
          words.append(e.toWords(toStored(e, value)));
        }
        e.sendWords(words, own.at(offset, repeat * move.repeatBytes), barrier, rank);
        bytes += words.size() * 4;
      });
  };
  // Where all lanes have the same, each of the first ones serves a block.
  if (freeLanes == lanes - 1 && blocks <= lanes) {
    e.when(e.b.CreateICmpULT(e.laneId(), e.i32(blocks)), [&] { sendTo(e.laneId()); });
  } else {
    llvm::Value *owner = nullptr;
    if (freeLanes)
      owner = e.b.CreateICmpEQ(e.b.CreateAnd(e.laneId(), freeLanes), e.i32(0));
    e.when(owner, [&] {
      for (unsigned rank = 0; rank < blocks; ++rank)
        sendTo(e.i32(rank));
    });
  }
  return bytes * (lanes >> llvm::popcount(freeLanes)) * e.warpCount();
}

Values loadShared(Emitter &e, llvm::Value *base, const SharedMove &move) {
  Access access(e, move);
  auto [vector, matrix, conflicts, cost] =
      sharedAccess(move.distributed, move.memory, access.bytes * 8, move.matrices);
  Values registers(access.coreRegisters() * move.repeats, nullptr);
  if (matrix) {
    loadMatrices(e, base, access, *matrix, registers);
    return registers;
  }
  SharedAddresses addresses(e, base, access.laneBytes, access.warpBytes);
  unsigned moved = bitMask(vector.registerBits);
  for (unsigned repeat = 0; repeat < move.repeats; ++repeat) {
    llvm::SmallDenseMap<uint32_t, unsigned> loaded;
    unsigned first = repeat * access.coreRegisters();
    forGroups(access, moved, [&](unsigned reg, uint32_t offset) {
      loaded[offset] = reg;
      llvm::Type *type = access.stored;
      if (vector.elements > 1)
        type = llvm::FixedVectorType::get(type, vector.elements);
      llvm::Value *data =
          e.b.CreateAlignedLoad(type, addresses.at(offset, repeat * move.repeatBytes),
                                llvm::Align(vector.elements * access.bytes));
      for (unsigned i = 0; i < vector.elements; ++i)
        registers[first + (reg | spread(i, vector.registerBits))] =
            fromStored(e, vector.elements > 1 ? e.b.CreateExtractElement(data, uint64_t(i)) : data,
                       move.element);
    });
    for (unsigned reg = 0; reg < access.coreRegisters(); ++reg)
      if (!registers[first + reg])
        registers[first + reg] =
            registers[first + (loaded[access.offset(reg & ~moved)] | (reg & moved))];
  }
  return registers;
}

} // namespace nereid::gpu
