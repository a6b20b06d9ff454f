// Blocks that run one program after the other and fetch the rows of the next one meanwhile.
//
// A program that reads a row, reduces it and writes it has three phases, and only the first and the
// last one use memory. Where so few blocks fit on a multiprocessor that its phases are not hidden
// by those of another block, memory waits. So the launcher starts as many blocks (or clusters) as
// the device runs at the same time, and each of them runs several programs:
//
//     copy the row of the first program → own bytes                          commit
//     for program in first, first + running, ..:
//         wait for the copy;  row = own bytes
//         copy the row of program + running → own bytes, if there is one     commit
//         the program, with `row` in place of its load
//
// The row of the next program is under way while this one computes and writes. Every thread copies
// the elements that it will read itself (`ngpu.fetch`), so that no barrier is needed, and the
// blocks of a cluster copy their own parts. Programs of a launch have no order, so a load may pass
// the stores of another program. What all programs read, such as the gains of a norm, is copied
// once, before the loop, where shared memory has room for it. Programs that might wait for one
// another do not run like this: those with atomics, volatile loads, loops, calls or assembly.
#include "gpu/schedule/PersistentRows.h"

#include "gpu/layouts/AccessWidth.h"
#include "gpu/schedule/KeptWords.h"
#include "gpu/schedule/SendPartials.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Bytes that a copy should move at least.
constexpr unsigned kLeastBytes = 8;
/// Shared memory that is left for reductions and conversions.
constexpr int64_t kRest = 8 * 1024;
/// Warps that hide the latency of reads from the second-level cache behind one another.
constexpr int kManyWarps = 16;
/// Registers of a thread besides those of its row.
constexpr int64_t kBeside = 24;
/// As many blocks of a cluster on a multiprocessor hide the phases of one another.
constexpr int64_t kFewBlocks = 4;

bool isProgram(Operation &op) {
  auto id = dyn_cast<tile::ProgramIdOp>(op);
  return id && id.getAxis() == 0;
}

bool isProgramCount(Operation &op) {
  auto number = dyn_cast<tile::NumProgramsOp>(op);
  return number && number.getAxis() == 0;
}

/// May the op be run once for each of several programs by the same threads, and does it leave the
/// order of programs open?
bool isAllowed(Operation &op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getIsVolatile();
  if (isa<tile::StoreOp, tile::ReduceOp, tile::ScanOp, ngpu::ConvertLayoutOp>(op))
    return true;
  return op.getNumRegions() == 0 && !isa<tile::ExternOp, tile::InlineAsmOp>(op) &&
         isMemoryEffectFree(&op);
}

/// A row that is fetched ahead.
struct Row {
  tile::LoadOp load;
  unsigned contiguity;
  int64_t bytes; ///< of a block
  bool once;     ///< the same for all programs
  Value buffer;
};

class Persistence {
public:
  Persistence(func::FuncOp kernel, const GpuOptions &options)
      : kernel(kernel), options(options), body(kernel.getBody().front()), b(kernel.getContext()),
        loc(kernel.getLoc()) {}

  bool plan();
  unsigned rewrite();

private:
  bool paysInCluster(int64_t kept, int64_t block) const;
  bool addSlice(Value value, llvm::SetVector<Operation *> &ops, bool &ofProgram);
  void addRow(tile::LoadOp load, const transforms::IntegerAnalysis &analysis, bool once);
  bool isRow(Operation &op, bool once) const;
  bool pays() const;
  void fetch(Value program, Value exists, bool all);

  func::FuncOp kernel;
  const GpuOptions &options;
  Block &body;
  OpBuilder b;
  Location loc;
  SmallVector<Row> rows;
  llvm::SetVector<Operation *> slice; ///< that computes where the rows are
  int64_t bytes = 0;                  ///< of the rows of one program
  int64_t onceBytes = 0;              ///< of those that are the same for all programs
  Value count;                        ///< of programs, along the first axis
};

/// Adds what `value` is computed of. False where that cannot be computed for another program
/// ahead. `ofProgram` becomes true where it differs between programs.
bool Persistence::addSlice(Value value, llvm::SetVector<Operation *> &ops, bool &ofProgram) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  ofProgram |= isProgram(*op);
  if (ops.contains(op))
    return true;
  if (!isMemoryEffectFree(op) || op->getNumRegions() || isa<ngpu::ConvertLayoutOp>(op))
    return false;
  for (Value operand : op->getOperands())
    if (!addSlice(operand, ops, ofProgram))
      return false;
  ops.insert(op);
  return true;
}

void Persistence::addRow(tile::LoadOp load, const transforms::IntegerAnalysis &analysis,
                         bool once) {
  auto type = dyn_cast<RankedTensorType>(load.getType());
  if (!type)
    return;
  llvm::SetVector<Operation *> ops;
  bool ofProgram = false;
  for (Value value : {load.getPtr(), load.getMask(), load.getOther()})
    if (value && !addSlice(value, ops, ofProgram))
      return;
  const LinearLayout &layout = ngpu::layoutOf(type).getLayout();
  bool copies = layout.freeBits(Axis::Register) || layout.freeBits(Axis::Lane) ||
                layout.freeBits(Axis::Warp) || layout.size(Axis::Lane) < ngpu::laneCount(kernel) ||
                layout.size(Axis::Warp) < ngpu::warpCount(kernel);
  unsigned element = tile::sizeInBytes(type.getElementType());
  unsigned contiguity = accessWidth(analysis, load.getPtr(), load.getMask()).elements;
  if (ofProgram == once || copies || contiguity * element < kLeastBytes)
    return;
  int64_t own = type.getNumElements() * element / options.numBlocks;
  if (bytes + onceBytes + own + kRest > options.machine.maxSharedBytes)
    return;
  (once ? onceBytes : bytes) += own;
  slice.insert_range(ops);
  rows.push_back({load, contiguity, own, once, Value()});
}

/// Is `op` the load of a row that is fetched ahead, or with `once` of any that is fetched?
bool Persistence::isRow(Operation &op, bool once) const {
  return llvm::any_of(rows, [&](const Row &row) { return (once || !row.once) && row.load == &op; });
}

/// In a cluster whose reductions send, few blocks of which fit on a multiprocessor: a row that is
/// kept as wider numbers than it is read as, as for one block. An fp32 row gains by what is saved
/// when the gains that are read with it are fetched once; without any, or where they do not fit
/// beside the row, other blocks hide as much (docs/notes/performance.md).
bool Persistence::paysInCluster(int64_t kept, int64_t block) const {
  if (!options.sendsPartials || kFewBlocks * block <= options.machine.registers ||
      llvm::any_of(body, [](Operation &op) { return meetsBlocks(&op); }))
    return false;
  int64_t read = bytes * options.numBlocks;
  bool narrow = llvm::all_of(rows, [](Row row) {
    return row.once || tile::sizeInBytes(tile::elementOf(row.load.getType())) < 4;
  });
  bool allFetched = llvm::all_of(body, [&](Operation &op) {
    return !isa<tile::LoadOp>(op) || !isa<RankedTensorType>(op.getResult(0).getType()) ||
           isRow(op, /*once=*/true);
  });
  return (narrow && read < 4 * kept) || (read <= 4 * kept && onceBytes && allFetched);
}

/// Does a block have a multiprocessor to itself, and so much to compute for each byte that memory
/// would wait for it? That is so where rows are kept as wider numbers than they are read as; of
/// fp32 rows the fixed share of programs that a block gets costs more than the overlap gains
/// (docs/notes/performance.md). The compiler's gradients have not been measured.
bool Persistence::pays() const {
  if (options.persistentRows == PersistentRows::Always)
    return true;
  if (kernel->hasAttr("tile.gradients"))
    return false;
  int64_t kept = wordsKept(kernel), threads = int64_t(options.numWarps) * options.machine.lanes;
  int64_t perThread = llvm::divideCeil(kept, threads) + kBeside;
  int64_t block = perThread * threads / options.numBlocks;
  if (options.numBlocks > 1)
    return paysInCluster(kept, block);
  // Gains and the like are read behind the reductions; few warps wait for them one after the other.
  bool others = llvm::any_of(body, [&](Operation &op) {
    return isa<tile::LoadOp>(op) && isa<RankedTensorType>(op.getResult(0).getType()) &&
           !isRow(op, /*once=*/false);
  });
  if (others && options.numWarps < kManyWarps)
    return false;
  return bytes < 4 * kept && 2 * block > options.machine.registers;
}

bool Persistence::plan() {
  if (options.persistentRows == PersistentRows::Never || !options.machine.asyncCopy ||
      !llvm::hasSingleElement(kernel.getBody()))
    return false;
  if (!llvm::all_of(body.without_terminator(), isAllowed))
    return false;
  bool reduces = llvm::any_of(body, llvm::IsaPred<tile::ReduceOp, tile::ScanOp>);
  if (!reduces || llvm::none_of(body, isProgram))
    return false;
  transforms::IntegerAnalysis analysis = addressAnalysis(kernel);
  auto addRows = [&](bool once) {
    for (Operation &op : body) {
      if (isa<tile::StoreOp>(op)) // of this program, which its later loads may read
        break;
      if (auto load = dyn_cast<tile::LoadOp>(op))
        addRow(load, analysis, once);
    }
  };
  addRows(/*once=*/false);
  if (rows.empty())
    return false;
  addRows(/*once=*/true);
  return pays();
}

/// Starts the copies of the rows of `program`, if it `exists` (null: it does), and with `all` of
/// those that are the same for all programs.
void Persistence::fetch(Value program, Value exists, bool all) {
  IRMapping map;
  // In the order of the kernel, where operands come first.
  for (Operation &op : llvm::make_early_inc_range(*rows.front().load->getBlock())) {
    if (!slice.contains(&op))
      continue;
    if (isProgram(op))
      map.map(op.getResult(0), program);
    else if (isProgramCount(op))
      map.map(op.getResult(0), count);
    else
      b.clone(op, map);
  }
  for (Row &row : rows) {
    if (row.once && !all)
      continue;
    Location at = row.load.getLoc();
    Value ptr = map.lookupOrDefault(row.load.getPtr());
    Value mask = row.load.getMask() ? map.lookupOrDefault(row.load.getMask()) : Value();
    if (exists) {
      Value all =
          tile::SplatOp::create(b, at, tile::withShapeOf(b.getI1Type(), ptr.getType()), exists);
      mask = mask ? Value(arith::AndIOp::create(b, at, mask, all)) : all;
    }
    ngpu::FetchOp::create(b, at, ptr, row.buffer, mask, row.contiguity, row.load.getCache(),
                          row.load.getEvict());
  }
  ngpu::AsyncCommitOp::create(b, loc);
}

unsigned Persistence::rewrite() {
  Operation *end = body.getTerminator();
  SmallVector<Operation *> program;
  for (Operation &op : body.without_terminator())
    program.push_back(&op);

  b.setInsertionPointToStart(&body);
  Value first = tile::ProgramIdOp::create(b, loc, b.getI32Type(), 0);
  Value running = tile::NumProgramsOp::create(b, loc, b.getI32Type(), 0);
  count = ngpu::ProgramsOp::create(b, loc);
  for (Row &row : rows) {
    auto layout = ngpu::LayoutAttr::get(b.getContext(), sharedSwizzled({row.bytes}, {0}, 8, 0));
    auto type = ngpu::BufferType::get(b.getContext(), {row.bytes}, b.getI8Type(), layout);
    row.buffer = ngpu::LocalAllocOp::create(b, row.load.getLoc(), type, Value(), IntegerAttr());
  }
  fetch(first, Value(), /*all=*/true);
  auto loop = scf::ForOp::create(b, loc, first, count, running);
  Block *inside = loop.getBody();
  for (Operation *op : program)
    op->moveBefore(inside->getTerminator());
  b.setInsertionPointToStart(inside);
  ngpu::AsyncWaitOp::create(b, loc, 0);

  // The next rows are copied to where these have been read from.
  for (Row &row : rows)
    if (!row.once)
      b.setInsertionPointAfter(row.load);
  Value rest = arith::SubIOp::create(b, loc, count, loop.getInductionVar());
  Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, rest, running);
  Value next = arith::AddIOp::create(b, loc, loop.getInductionVar(), running);
  fetch(next, exists, /*all=*/false);
  for (Row &row : rows) {
    b.setInsertionPoint(row.load);
    Value fetched = ngpu::FetchedOp::create(b, row.load.getLoc(), row.load.getType(),
                                            row.load.getPtr(), row.buffer, row.load.getMask(),
                                            row.load.getOther(), row.contiguity);
    row.load.replaceAllUsesWith(fetched);
    row.load.erase();
  }
  for (Operation &op : llvm::make_early_inc_range(*inside)) {
    if (!isProgram(op) && !isProgramCount(op))
      continue;
    op.getResult(0).replaceAllUsesWith(isProgram(op) ? loop.getInductionVar() : count);
    op.erase();
  }
  b.setInsertionPoint(end);
  ngpu::AsyncWaitOp::create(b, loc, 0);
  for (Row &row : rows)
    ngpu::LocalDeallocOp::create(b, loc, row.buffer);
  kernel->setAttr(ngpu::persistentName, b.getI32IntegerAttr(1));
  return unsigned(bytes + onceBytes);
}

} // namespace

unsigned runPersistently(func::FuncOp kernel, const GpuOptions &options) {
  Persistence persistence(kernel, options);
  return persistence.plan() ? persistence.rewrite() : 0;
}

} // namespace nereid::gpu
