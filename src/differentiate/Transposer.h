// The transpose of forward mode, as a class whose members are written in several files by topic:
//
//   Transpose.cpp            what is linear, adjoints, branches, what is left of forward mode
//   TransposeOperations.cpp  arithmetic, shapes, sums and products
//   TransposeMemory.cpp      loads, stores, and how gradients are summed
//   TransposeLoops.cpp       loops
//   PartialSums.cpp          sums over programs without atomic additions
//   PickedElements.cpp       rows from which a program also reads one element by itself
//   Schedules.cpp            gradients that are summed over tiles in an order of their own
#pragma once

#include "differentiate/Activity.h"
#include "differentiate/Conditions.h"
#include "differentiate/Coordinates.h"
#include "differentiate/Ownership.h"
#include "differentiate/Refuse.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <vector>

namespace nereid::differentiate {

/// A loop from `from` to `to` by ones; `round` gets its number and what is carried, and gives what
/// comes next.
llvm::SmallVector<mlir::Value>
loopOver(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value from, mlir::Value to,
         mlir::ValueRange carried,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> round);

class Transposer {
public:
  Transposer(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments, bool mayHaveSchedules);

  std::optional<Refusal> run();

private:
  //===--- what is linear ---===//

  /// Whether it reads what will be a gradient.
  bool readsGradient(mlir::Operation *op) const;
  static bool isFloat(mlir::Value value);
  /// One more round over the kernel; whether anything was found.
  bool findLinear();
  bool hasLinear(mlir::ValueRange values) const;
  bool isLinear(mlir::Operation *op) const;
  /// `while` loops, and combiners without a transpose.
  std::optional<Refusal> checkRegions() const;

  //===--- adjoints ---===//

  /// What a value that is not linear is where the transpose is written.
  mlir::Value here(mlir::Value value) const;
  void accumulate(mlir::Value value, mlir::Value adjoint);

  /// Where the lanes of an adjoint may differ from zero: those whose value reaches an output, as
  /// masks of stores and conditions of selections say.
  struct Live {
    mlir::Value mask;
    bool isZeroed; ///< whether the other lanes hold zero; else 0 times what may be infinite
  };
  /// With zero in the lanes that reach no output.
  mlir::Value zeroed(mlir::Value adjoint);
  /// Notes the live lanes of what was made elementwise from an adjoint: of a product with
  /// `isScaled`.
  mlir::Value sameLanes(mlir::Value made, mlir::Value adjoint, bool isScaled = false);
  /// Whether masks or selections at or behind a branch or loop leave lanes out.
  bool hasMasks(mlir::Operation *region) const;
  /// Takes the lanes that are not zero now as live, where masks are not known any more: behind
  /// loops, branches and changes of shape. Returns the adjoint.
  mlir::Value liveWhereNotZero(mlir::Value adjoint);
  /// `adjoint` where the condition is `isTrue`, elsewhere zero.
  mlir::Value selected(mlir::Value condition, mlir::Value adjoint, bool isTrue);
  mlir::Value orZero(mlir::Value adjoint, mlir::Value of);
  void refuseHere(mlir::Operation *op, llvm::StringRef what, llvm::StringRef why);
  void transposeBlock(mlir::Block &block);
  void transposeOp(mlir::Operation *op);

  //===--- operations ---===//

  bool transposeArithmetic(mlir::Operation *op, mlir::Value a);
  /// Functions of the library that are linear: scaling by powers of two, conversions.
  void transposeDevice(tile::ExternOp op, mlir::Value a);
  bool transposeShape(mlir::Operation *op, mlir::Value a);
  void transposeSplit(tile::SplitOp split);
  static bool isOneSum(mlir::Operation *op);
  void transposeSum(tile::ReduceOp op, unsigned axis, mlir::Value a);
  /// Element i is in the sums from i on.
  void transposeScan(tile::ScanOp op, mlir::Value a);
  /// Of a scan with any combiner: Combiners.h.
  void transposeLinearScan(tile::ScanOp scan);
  /// Every index that picked an element adds to it.
  void transposeGather(tile::GatherOp gather, mlir::Value a);
  /// Elements that were not picked get zero.
  void transposeSlice(tile::SliceOp slice, mlir::Value a);
  mlir::Value swapped(mlir::Value matrix);
  /// da = a b^T and db = a^T da, the adjoint rounded to the operands' type as the product's
  /// operands are.
  void transposeDot(tile::DotOp dot, mlir::Value a);

  //===--- memory ---===//

  bool transposeMemory(mlir::Operation *op);
  /// Who adds to the gradients: of the kernel before it is transposed.
  void findOwners();
  /// Says so, where a gradient has no schedule, and which gradients gain by partial sums.
  void noteOwners();
  /// Adds to a gradient, in the part of the transpose that is being written.
  void contribute(tile::LoadOp load, mlir::Value a);
  /// Adds to a gradient. Other programs may add to the same element, unless it is proven, or found
  /// at run time, that each element has one owner.
  void addTo(tile::LoadOp load, mlir::Value a);
  mlir::Value whereStoredOnce(tile::StoreOp store, mlir::Value a);
  std::string nameOf(int gradient) const;

  //===--- partial sums ---===//

  /// What a program adds to a row at the end: the sum of a value over all that it computes.
  struct RowSum {
    mlir::Value address, mask, value;
  };
  /// Notes a contribution whose addresses are the same in all programs; false where they differ.
  bool sumInRegisters(tile::LoadOp load, mlir::Value a);
  /// Reads, adds and writes, where no other program does.
  void addToStored(mlir::Value address, mlir::Value mask, mlir::Value a);
  /// Lets each launched program compute several of the kernel's.
  void distributePrograms();
  /// The argument whose gradient this one is.
  unsigned tensorOf(int gradient) const;

  //===--- branches ---===//

  /// A branch computes anew what its transpose needs of it, and gives the adjoints of what it used
  /// from outside.
  void transposeIf(mlir::scf::IfOp branch);
  /// The values in the order of the program.
  llvm::SmallVector<mlir::Value> ordered(const llvm::SetVector<mlir::Value> &values);
  /// A copy that uses what values are here, and gives what they are from here on.
  mlir::Operation *copyHere(mlir::Operation *op);
  /// Whether a schedule chooses what the operation computes; maps a position that wraps around to
  /// one that does not, where addresses are without these.
  bool isGiven(mlir::Operation *op);
  /// Copies of what a block computes besides tangents, without what it stores; with the outputs
  /// that markOutputs has marked where asked for.
  void recompute(mlir::Block &source, bool withOutputs = false);

  //===--- loops ---===//

  /// The rounds of a loop in reverse order. Each computes anew what its transpose needs, and passes
  /// the adjoints of what the loop carries to the round before.
  void transposeFor(mlir::scf::ForOp loop);
  llvm::BitVector wantedTangents(mlir::scf::ForOp loop, bool &none) const;
  /// A loop that is transposed, seen from where the transpose is written.
  struct Rounds {
    mlir::scf::ForOp loop;
    mlir::Value lower, step, count;
    /// Of what the loop carries: the first value, and for closed forms what a round adds.
    llvm::SmallVector<mlir::Value> inits;
    llvm::SmallVector<std::optional<llvm::SmallVector<mlir::Value>>> steps;
    llvm::SmallVector<unsigned> states;   ///< carried values that have neither
    llvm::SmallVector<unsigned> tangents; ///< and those that are linear and get adjoints
    bool mayBeNegative = false;           ///< the number of a round, where none is executed
    bool isMasked = false;                ///< whether adjoints may have lanes that reach no output
  };
  /// Written before the reverse loop.
  Rounds roundsOf(mlir::scf::ForOp loop);
  /// Maps the loop's variable, and what has a closed form, to their values in a round.
  void enterRound(const Rounds &rounds, mlir::Value number);
  void writeRound(const Rounds &rounds, mlir::Block &round,
                  llvm::SmallVectorImpl<mlir::Value> &outside);
  llvm::SmallVector<mlir::Value> runRounds(const Rounds &rounds, mlir::Block &round,
                                           llvm::SmallVector<mlir::Value> carried);
  /// The states in round `to`, from those in round `from`; null for those that are not needed.
  llvm::SmallVector<mlir::Value> replay(const Rounds &rounds, mlir::ValueRange states,
                                        mlir::Value from, mlir::Value to,
                                        const llvm::BitVector &needed);
  std::pair<llvm::SmallVector<mlir::Value>, llvm::SmallVector<mlir::Value>>
  replayBoth(const Rounds &rounds, llvm::ArrayRef<mlir::Value> first, mlir::ValueRange there,
             mlir::Value number, mlir::Value begin, mlir::Value at, const llvm::BitVector &needed);
  /// The states after a round.
  llvm::SmallVector<mlir::Value> nextStates(const Rounds &rounds, mlir::ValueRange states,
                                            mlir::Value number, const llvm::BitVector &needed);
  /// Removes what computes nothing that is used.
  void eraseDead(mlir::Block &block);

  //===--- schedules ---===//

  /// A gradient that is summed by the tiles that own its elements (Schedules.cpp).
  struct Schedule {
    tile::LoadOp load; ///< of several, the one that is being written
    llvm::SmallVector<tile::LoadOp> all;
    /// Those of the kernel, and the number of the block where `isByBlocks`.
    Coordinates tiles;
    Ownership owner;
    llvm::SmallVector<mlir::scf::ForOp> loops; ///< around the load, outermost first
    llvm::SmallVector<unsigned> owned;         ///< coordinates that the address depends on
    /// Whether tiles differ in their rounds, or several loops read the blocks: a block has a
    /// number, its position divided by the loops' step, and each tile its rounds among these.
    bool isByBlocks = false;
    int64_t step = 0;                ///< of the loops
    std::optional<unsigned> varying; ///< the coordinate that bounds of loops depend on
    mlir::Value bounded;             ///< a further condition, an i1; or null
    mlir::Value position;            ///< of the block that is being written: the loops' variable
    llvm::SmallVector<mlir::Value> places; ///< of the tile that is being written
    unsigned loopsWritten = 0;
    /// Of the innermost loop: its rounds, the blocks of one round, and what takes the round off
    /// the number of a block (TileSizes.h).
    mlir::Value countOfRounds, blocksOfRound;
    mlir::Operation *roundOfBlock = nullptr, *restOfBlock = nullptr;
    llvm::SmallVector<mlir::Value> rounds; ///< of each loop, where a contribution is written
    mlir::Value contribution;              ///< to the gradient of one program's block
    bool isSaved = false;                  ///< from an adjoint that the first step has saved
    std::string why;                       ///< why it is none; empty when it is one
    mlir::Value count, holds;              ///< of its blocks; whether it can be taken, an i1
    std::optional<bool> known;             ///< the same, where it is known now
    /// Schedules of blocks with the same numbers in the same loops, that are written in the loop
    /// over this one's: as values, whose tiles compute what those of keys do.
    llvm::SmallVector<Schedule *> partners;
    bool isPartner = false;

    llvm::SmallVector<Schedule *> written() {
      llvm::SmallVector<Schedule *> all{this};
      all.append(partners);
      return all;
    }
  };
  /// Transposes the kernel: gradients with a schedule of their own, then the others together.
  void transposeKernel(mlir::Block &body);
  void findSchedules(mlir::Block &body);
  /// Why a load has no schedule, as far as the kernel tells; empty when it may have one.
  std::string planSchedule(Schedule &schedule);
  /// A loop over tiles, and what each stores; false with a reason when that cannot be written.
  bool writeSchedule(Schedule &schedule, mlir::Block &body, mlir::Value count);
  std::string planBlocks(Schedule &schedule);
  std::string planMasks(Schedule &schedule, llvm::ArrayRef<mlir::Value> counts);
  /// The tiles that have a round for the block, from the first to one behind the last.
  std::pair<mlir::Value, mlir::Value> tilesWithBlock(Schedule &schedule);
  /// What the tiles add to a block, those of one load.
  llvm::SmallVector<mlir::Value> sumOverTiles(Schedule &schedule, mlir::Block &body,
                                              llvm::SmallVector<mlir::Value> sums,
                                              unsigned sharedBefore = 0);
  void ownByTile(const Schedule &schedule);
  /// For people.
  std::string wordsOf(const Schedule &schedule) const;
  /// The number of blocks of the gradient, and whether the schedule can be taken, an i1.
  mlir::Value tilesOf(Schedule &schedule);
  mlir::Value conditionOf(const Schedule &schedule, mlir::Value count);
  /// The schedule where it can be taken, and an empty region elsewhere; null with a reason.
  mlir::scf::IfOp writeAlternatives(Schedule &schedule, mlir::Block &body, mlir::Value holds);
  /// The same with partners where that can be written, by the adjoints that are needed.
  mlir::scf::IfOp writePlanned(Schedule &schedule, mlir::Block &body);
  /// Finds partners of a schedule among the later ones; whether there are any.
  bool findPartners(Schedule &schedule, std::vector<Schedule> &candidates, mlir::Block &body);
  /// Whether a schedule by itself can be written without what a first step saves: writes it, and
  /// removes it again.
  bool canBeWritten(Schedule &schedule, mlir::Block &body);
  /// Whether rounds of the loops around its loads read what other loops have computed.
  bool readsLoops(const Schedule &schedule) const;
  /// Atomic additions to what these loads read, where their schedule is not taken.
  void writeOtherwise(mlir::scf::IfOp branch, mlir::Block &body,
                      mlir::ArrayRef<tile::LoadOp> loads);
  /// Notes the condition of a schedule for launchers.
  void noteCondition(const ConditionText &text);
  void storeTile(Schedule &schedule, mlir::Block &body, mlir::Value tile);
  /// The block's mask with bounds in place of positions that wrap around; null without either.
  mlir::Value maskOfBlock(Schedule &schedule, mlir::Value address);
  mlir::Value addContribution(Schedule &schedule, mlir::Value sum);
  /// Whether contributions are zero at positions that wrap around.
  bool vanishWhereWrapped(const Schedule &schedule);
  /// Of a loop around the load of the schedule that is being written: what its round computes, and
  /// the transpose of the round.
  Rounds enterScheduledRound(mlir::scf::ForOp loop);
  void transposeRound(mlir::scf::ForOp loop);
  /// Whether the adjoint of what the loop carries is the same in all rounds.
  bool isSumLoop(mlir::scf::ForOp loop) const;

  /// What the first step saves: the adjoint of what a loop or a load gives, or a value that a loop
  /// computes and another one reads, as the statistics of a row.
  struct Saved {
    mlir::Value of;
    mlir::Type element; ///< in memory
    int64_t before;     ///< bytes of a program that are saved before it, a multiple of 16
  };
  bool maySave(const Schedule &schedule) const;
  /// Notes the values that the first step saves for the rounds of the schedule's loops.
  void saveValues(const Schedule &schedule);
  mlir::Value lastOfSum(mlir::Value value) const;
  /// The number in `saved`; a new one for a value that was not saved so far.
  unsigned savedOf(mlir::Value value);
  /// Of the block of the program with these coordinates.
  mlir::Value savedAddress(const Saved &each, llvm::ArrayRef<mlir::Value> places);
  /// In the first step: stores the adjoint of a value that is to be saved.
  void save(mlir::Value value, mlir::Value adjoint);
  mlir::Value loadSaved(const Saved &each, llvm::ArrayRef<mlir::Value> places);
  /// Values that are not linear, from loops before the loop, that it reads.
  llvm::SmallVector<mlir::Value> readFromLoops(mlir::scf::ForOp loop) const;
  void contributeSaved(Schedule &schedule, llvm::ArrayRef<mlir::Value> places);
  /// Divides what was written after `marker`, and what remains to be written, into two steps.
  void divideIntoSteps(mlir::Block &body, mlir::Operation *marker);
  /// With the step -1: stores how many bytes each program saves.
  void writeQuery();

  //===--- picked elements ---===//

  /// Loads of blocks of neighbours, one behind the other, of which a program reads one element by
  /// itself as well.
  struct Row {
    tile::LoadOp load;
    mlir::scf::ForOp loop; ///< around the load, but not around the other one; or null
    int64_t width = 0;     ///< of a block, in elements
    int64_t step = 1;      ///< of the loop
    Size distance;         ///< of the picked element from the first one of the first block
    mlir::Value at;        ///< the same where the transpose is written, an i64
    mlir::Value takes;     ///< a constant i1: whether the row takes the element
    bool isTaker = false;
  };
  /// A load of one element.
  struct Picked {
    tile::LoadOp load;
    llvm::SmallVector<Row, 1> rows; ///< that may take its gradient
    mlir::Value adjoint;            ///< zero where the load is masked
  };
  static constexpr int64_t noteBytes = 16; ///< of a program: a note of 4 bytes
  void findPicked();
  /// Nothing where a load is no such row.
  std::optional<Row> rowOf(tile::LoadOp picked, tile::LoadOp load);
  mlir::Value inElement(const Row &row, mlir::Value value, mlir::Value lane, mlir::Value variable);
  mlir::Value isCovered(const Row &row, mlir::Value distance);
  mlir::Value isLeft(Picked &one);
  void pick(Picked &one, mlir::Value a);
  mlir::Value withPicked(tile::LoadOp load, mlir::Value a);
  mlir::Value noteAddress(mlir::Location loc);
  /// Both steps of a kernel with such loads.
  void transposePicked(mlir::Block &body);

  /// Stands for what must not be used.
  mlir::Value placeholder(mlir::Type type);
  /// Copies of what the kernel computes, in the tile with these coordinates.
  void enterTile(mlir::Block &body, llvm::ArrayRef<mlir::Value> places);

  //===--- what is left of forward mode ---===//

  /// Removes linear operations, all of whose users are linear. Branches give zeros in their place,
  /// and loops carry zeros.
  void strip(llvm::ArrayRef<mlir::Operation *> ops);
  /// Other values may come to the place of those of an operation that is erased.
  void forget(mlir::Operation *op);
  static bool isInCombiner(mlir::Operation *op);
  static bool isWrite(mlir::Operation *op);
  static void dropWritesIn(mlir::Operation *op, bool exceptOutputs = false);
  void markOutputs();

  mutable mlir::func::FuncOp kernel;
  llvm::ArrayRef<Argument> arguments;
  transforms::Provenance provenance;
  mlir::OpBuilder builder;
  llvm::SmallVector<std::string> notes; ///< how gradients are summed
  llvm::BitVector isGradient;
  /// Of each load of tangents: how it adds to the gradient. Loads of one tensor have one owner.
  struct Contribution {
    Ownership owner;
    bool isPartial = false; ///< in a row of the program's own
    bool isFirst = false;   ///< stores; else adds to what is stored
  };
  llvm::DenseMap<mlir::Operation *, Contribution> contributions;
  /// The same by gradients.
  struct Owner {
    int gradient; ///< -1: several
    llvm::SmallVector<tile::LoadOp> loads;
    SharedOwnership shared;
    bool isByLoads;        ///< found by looking at the loads, which are all that read the tensor
    bool isPicked = false; ///< elements are also read by other loads, at addresses from memory
  };
  std::vector<Owner> owners;
  llvm::MapVector<mlir::Operation *, Picked> picked;
  void addFacts(unsigned argument, unsigned facts); ///< GradientFact
  void addFacts(const Owner &owner, bool isScheduled);
  void note(const Owner &owner, const std::string &notTransposed);
  const bool mayHaveSchedules;
  std::vector<std::string> conditions;   ///< of schedules, as texts (Conditions.h)
  llvm::StringMap<bool> knownConditions; ///< by their ids
  Coordinates coordinates;               ///< of tiles, for schedules
  llvm::DenseMap<mlir::Operation *, std::string> notScheduled; ///< loads, and why
  llvm::DenseSet<mlir::Operation *> scheduled;                 ///< loads with a schedule
  llvm::DenseSet<mlir::Operation *> unwrapped; ///< remainders that are left out of addresses
  Schedule *schedule = nullptr;                ///< the one being written
  mlir::Operation *lastOfKernel = nullptr;     ///< what follows in its block is the transpose
  mlir::Operation *afterCoordinates = nullptr; ///< the last operation that computes coordinates
  llvm::SmallVector<Saved> saved;
  int64_t savedBytes = 0;   ///< of a program
  mlir::Value memory, step; ///< arguments of a kernel that may have two steps
  bool isSaving = false;    ///< the first step is being written
  bool hasOthers = false;   ///< some gradients have no schedule
  /// Of schedules, whose gradients alone are being written otherwise.
  llvm::SmallVector<tile::LoadOp> alone;
  llvm::DenseSet<mlir::Value> linear;
  llvm::DenseMap<mlir::Value, mlir::Value> adjoints;
  bool hasDeadLanes = false; ///< whether what is accumulated now comes from an adjoint with some
  llvm::DenseMap<mlir::Value, Live> lanes; ///< of adjoints; without an entry all are live
  mlir::IRMapping residuals;
  llvm::DenseMap<int, int> rows; ///< by gradient: the argument that says how long a row is
  llvm::SmallVector<RowSum> rowSums;
  std::optional<Refusal> refusal;
  llvm::DenseSet<mlir::Operation *> gone;
};

} // namespace nereid::differentiate
