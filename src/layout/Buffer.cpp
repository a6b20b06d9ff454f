// Layouts for buffers in shared memory that two distributed layouts meet in.
//
// A buffer's layout is an ordered basis of the space of coordinates: column i says which element is
// 2^i further. Three parts follow one another:
//
//   vector   the first columns are registers of the writer or of the reader (or the lanes along a
//            row of ldmatrix): what moves in one access;
//   banks    up to 128 bytes: the columns that choose the bank;
//   rest     elements that differ by these only share their bank.
//
// A phase of an access (the lanes served together) touches the span of its lanes' columns and of
// its vector. It is free of conflicts exactly if no element of that span but 0 lies in the span of
// the rest. So the rest has to avoid two subspaces, the writer's phase P and the reader's phase Q,
// each of at most 128 bytes. Over any field there is such a subspace: with p_i completing P ∩ Q to
// P, and q_i to Q, the sums p_i + q_i lie in neither, and whatever is outside P + Q is free. (The
// construction of "Linear Layouts", arXiv 2505.23819.) The sums are the XORs of a swizzle.
#include "layout/BufferPlan.h"
#include "layout/Echelon.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace nereid::layout {
namespace {

using Vectors = llvm::SmallVector<uint64_t, 24>;

/// One side of the buffer.
struct Side {
  Vectors registers; ///< of elements that the thread does not hold already
  Vectors lanes;     ///< zeros: copies
  /// Number of columns that one access moves (asynchronous copies); 0: free choice.
  unsigned vector = 0;
  explicit Side(const LinearLayout &layout) {
    uint64_t copies = layout.freeBits(Axis::Register);
    for (auto [bit, column] : llvm::enumerate(layout.flatBases(Axis::Register)))
      if (!(copies >> bit & 1))
        registers.push_back(column);
    lanes.assign(layout.flatBases(Axis::Lane).begin(), layout.flatBases(Axis::Lane).end());
  }
};

/// The sizes, in bits of an offset, that an element's width gives.
struct Widths {
  unsigned element; ///< log2 of the bytes of an element
  unsigned word, chunk, banks;
  explicit Widths(unsigned elementBits)
      : element(llvm::Log2_32(std::max(elementBits, 8u)) - 3), word(element < 2 ? 2 - element : 0),
        chunk(element < 4 ? 4 - element : 0), banks(7 - element) {}
};

/// How a side uses a buffer that begins with the columns `prefix`.
struct Use {
  Vectors phase;       ///< the columns of one phase, beside the prefix
  unsigned vector = 0; ///< how much of the prefix is in registers
  MoveCost cost;
};

Use useOf(const Side &side, const Vectors &prefix, const Widths &widths) {
  Use use;
  unsigned &vector = use.vector;
  unsigned limit = side.vector ? side.vector : widths.chunk;
  while (vector < prefix.size() && vector < limit &&
         llvm::is_contained(side.registers, prefix[vector]))
    ++vector;
  unsigned registers = 1u << side.registers.size();
  unsigned wordsPerAccess = std::max((1u << vector << widths.element) / 4, 1u);
  unsigned phaseLanes = 5 - llvm::Log2_32(wordsPerAccess);
  use.cost.instructions = registers >> vector;
  use.cost.turns = use.cost.instructions * wordsPerAccess;
  use.phase.assign(side.lanes.begin(),
                   side.lanes.begin() + std::min<size_t>(phaseLanes, side.lanes.size()));

  // ldmatrix and stmatrix read rows of 16 bytes; see matrixAccess.
  bool fullChunk = vector == widths.chunk;
  if (fullChunk || side.vector || side.lanes.size() != 5 || widths.element > 2 ||
      prefix.size() < widths.chunk)
    return use;
  llvm::ArrayRef<uint64_t> lanes(side.lanes),
      row = llvm::ArrayRef<uint64_t>(prefix).take_front(widths.chunk);
  bool plain = vector >= widths.word && lanes.take_front(2) == row.drop_front(widths.word);
  bool turned = widths.element == 1 && lanes.drop_front(2) == row && !side.registers.empty();
  if (plain)
    use.phase.assign(lanes.begin() + 2, lanes.end());
  else if (turned)
    use.phase = {side.registers[0], lanes[0], lanes[1]};
  else
    return use;
  unsigned words = std::max(registers >> widths.word, 1u);
  use.cost.turns = words;
  use.cost.instructions = std::max(words / 4, 1u);
  return use;
}

/// A start of a buffer, with the phases that it gives both sides (beside the prefix).
struct Candidate {
  Vectors prefix, writerPhase, readerPhase;
  bool writerOwns; ///< the prefix is a vector of the writer rather than of the reader
  MoveCost cost;
};

/// Wavefronts more for a phase that touches more than 128 bytes.
unsigned conflicts(const Vectors &prefix, const Vectors &phase, const Widths &widths) {
  Echelon span;
  unsigned dimension = 0;
  for (uint64_t column : prefix)
    dimension += span.insert(column, 0);
  for (uint64_t column : phase)
    dimension += span.insert(column, 0);
  return dimension > widths.banks ? 1u << (dimension - widths.banks) : 1;
}

/// Looks for the cheapest start of a buffer that begins with `fixed`; the first found wins a tie.
class Search {
public:
  Search(const Side &writer, const Side &reader, const Widths &widths, const Vectors &fixed)
      : writer(writer), reader(reader), widths(widths) {
    for (const Side *side : {&writer, &reader}) {
      unsigned words = std::max((1u << side->registers.size() << widths.element) / 4, 1u);
      lowest += words + std::max(words / 4, 1u);
    }
    consider(fixed);
    extend(fixed, writer.registers);
    extend(fixed, reader.registers);
    // The lanes along a matrix row.
    for (const Side *side : {&reader, &writer}) {
      llvm::ArrayRef<uint64_t> lanes(side->lanes), registers(side->registers);
      if (lanes.size() != 5 || widths.element > 2 || side->vector)
        continue;
      if (registers.size() >= widths.word && fixed.size() <= widths.word &&
          llvm::equal(fixed, registers.take_front(fixed.size())))
        extend(Vectors(registers.take_front(widths.word)), lanes.take_front(2));
      if (fixed.empty() && widths.element == 1)
        extend({}, lanes.drop_front(2));
    }
    // The registers that both sides have, as many as pay; then more of one side's.
    Vectors common(fixed);
    for (uint64_t column : writer.registers)
      if (common.size() < widths.chunk && !llvm::is_contained(fixed, column) &&
          llvm::is_contained(reader.registers, column))
        common.push_back(column);
    for (; common.size() > fixed.size(); common.pop_back()) {
      consider(common);
      extend(common, writer.registers);
      extend(common, reader.registers);
    }
  }

  Candidate best;

private:
  void consider(const Vectors &prefix) {
    if (any && best.cost.slots() <= lowest)
      return;
    Use uses[2] = {useOf(writer, prefix, widths), useOf(reader, prefix, widths)};
    auto cost = [&] {
      return MoveCost{uses[0].cost.instructions + uses[1].cost.instructions,
                      uses[0].cost.turns + uses[1].cost.turns};
    };
    if (any && cost().slots() >= best.cost.slots())
      return; // even without conflicts
    for (Use &use : uses)
      use.cost.turns *= conflicts(prefix, use.phase, widths);
    if (any && cost().slots() >= best.cost.slots())
      return;
    any = true;
    best = {prefix, uses[0].phase, uses[1].phase, uses[0].vector >= uses[1].vector, cost()};
  }

  /// Considers the prefix with one, two, ... of the columns.
  void extend(Vectors prefix, llvm::ArrayRef<uint64_t> columns) {
    Echelon span;
    for (uint64_t column : prefix)
      span.insert(column, 0);
    for (uint64_t column : columns)
      if (prefix.size() < widths.chunk && span.insert(column, 0)) {
        prefix.push_back(column);
        consider(prefix);
      }
  }

  const Side &writer, &reader;
  const Widths &widths;
  unsigned lowest = 0; ///< slots if both sides moved 16 bytes at once without conflicts
  bool any = false;
};

/// Columns that can be added to a basis one by one.
class Basis {
public:
  bool add(uint64_t column) {
    if (!echelon.insert(column, vectors.size()))
      return false;
    vectors.push_back(column);
    return true;
  }
  void add(llvm::ArrayRef<uint64_t> columns) {
    for (uint64_t column : columns)
      add(column);
  }
  /// Adds columns until there are `size`.
  void addUpTo(size_t size, llvm::ArrayRef<uint64_t> columns) {
    for (uint64_t column : columns)
      if (vectors.size() < size)
        add(column);
  }
  Vectors vectors;
  Echelon echelon;
};

} // namespace

LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits, llvm::ArrayRef<unsigned> leading,
                                MoveCost &cost) {
  assert(from.shape() == to.shape() && "layouts of one shape");
  Widths widths(elementBits);
  Side writer(from), reader(to);
  // Of the writer's copies only the owners store.
  uint32_t copies = from.freeBits(Axis::Lane);
  for (auto [bit, column] : llvm::enumerate(writer.lanes))
    if (copies >> bit & 1)
      column = 0;
  Vectors fixed;
  for (unsigned bit : leading.take_front(widths.chunk))
    fixed.push_back(from.flatBases(Axis::Register)[bit]);
  writer.vector = fixed.size();
  Candidate start = Search(writer, reader, widths, fixed).best;
  cost = start.cost;

  unsigned dimensions = llvm::Log2_64(from.elements());
  auto columnsOf = [](const LinearLayout &layout) {
    Vectors columns;
    for (Axis axis : {Axis::Lane, Axis::Register, Axis::Warp, Axis::Block})
      columns.append(layout.flatBases(axis).begin(), layout.flatBases(axis).end());
    return columns;
  };
  Vectors all = columnsOf(to);

  // A vector is aligned if its thread's other columns stay out of the prefix: what is added to the
  // basis gets the part removed that it has in the prefix when written in the columns of the side
  // that moves the vector.
  Basis own;
  own.add(start.prefix);
  own.add(start.writerOwns ? columnsOf(from) : all);
  for (Vectors *columns : {&start.readerPhase, &start.writerPhase, &all})
    for (uint64_t &column : *columns) {
      uint64_t used = own.echelon.reduce(column).second;
      for (unsigned i = 0; i < start.prefix.size(); ++i)
        if (used >> i & 1)
          column ^= start.prefix[i];
    }

  // Elements that share a word with the vector.
  Basis vector;
  vector.add(start.prefix);
  for (const Vectors *columns : {&start.readerPhase, &start.writerPhase, &all})
    vector.addUpTo(widths.word, *columns);

  // The two phases, and what they have in common.
  Basis p, q;
  p.add(vector.vectors);
  p.addUpTo(widths.banks, start.writerPhase);
  q.add(vector.vectors);
  q.addUpTo(widths.banks, start.readerPhase);
  Basis both = vector, sum = p;
  for (uint64_t column : q.vectors) {
    if (sum.add(column))
      continue;
    // This column with earlier ones of Q is a sum of columns of P.
    uint64_t combination = sum.echelon.lastDependency() & ((uint64_t(1) << p.vectors.size()) - 1);
    uint64_t inside = 0;
    for (; combination; combination &= combination - 1)
      inside ^= p.vectors[llvm::countr_zero(combination)];
    both.add(inside);
  }
  auto beyondBoth = [&](const Basis &phase) {
    Basis grown = both;
    grown.add(phase.vectors);
    return Vectors(grown.vectors.begin() + both.vectors.size(), grown.vectors.end());
  };
  Vectors onlyP = beyondBoth(p), onlyQ = beyondBoth(q);

  // The rest: what neither phase touches, then sums.
  size_t restSize = dimensions > widths.banks ? dimensions - widths.banks : 0;
  Basis outside = sum, rest;
  outside.add(all);
  Vectors untouched(outside.vectors.begin() + sum.vectors.size(), outside.vectors.end());
  rest.addUpTo(restSize, untouched);
  for (size_t i = 0; i < std::min(onlyP.size(), onlyQ.size()) && rest.vectors.size() < restSize;
       ++i)
    rest.add(onlyP[i] ^ onlyQ[i]);
  assert(rest.vectors.size() == restSize && "two subspaces of equal size have a common complement");

  // The banks complete it. They go before the rest in the offset. Their order is free as far as
  // conflicts go, but an asynchronous copy is written sector by sector (32 bytes of global memory):
  // the writer's lanes in their order keep two neighbours of 16 bytes side by side.
  Basis ordered = vector, complete = vector;
  complete.add(rest.vectors);
  Vectors first;
  if (writer.vector)
    first = p.vectors;
  for (const Vectors *columns : {&first, &both.vectors, &onlyP, &onlyQ, &all})
    for (uint64_t column : *columns)
      if (complete.add(column))
        ordered.add(column);
  ordered.add(rest.vectors);

  std::array<LinearLayout::Columns, kAxes> columns;
  columns[unsigned(Axis::Offset)].assign(ordered.vectors.begin(), ordered.vectors.end());
  return LinearLayout::fromFlat(from.shape(), std::move(columns));
}

LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits, llvm::ArrayRef<unsigned> leading) {
  MoveCost cost;
  return conflictFreeBuffer(from, to, elementBits, leading, cost);
}

} // namespace nereid::layout
