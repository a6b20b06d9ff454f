// The transpose of forward mode, as a class whose members are written in several files by topic:
//
//   Transpose.cpp            what is linear, adjoints, branches, what is left of forward mode
//   TransposeOperations.cpp  arithmetic, shapes, sums and products
//   TransposeMemory.cpp      loads, stores, and how gradients are summed
//   TransposeLoops.cpp       loops
//   PartialSums.cpp          sums over programs without atomic additions
#pragma once

#include "differentiate/Activity.h"
#include "differentiate/Ownership.h"
#include "differentiate/Refuse.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace nereid::differentiate {

class Transposer {
public:
  Transposer(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments);

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
  /// Adds to a gradient. Other programs may add to the same element, unless it is proven, or found
  /// at run time, that each element has one owner.
  void addTo(tile::LoadOp load, mlir::Value a);
  mlir::Value whereStoredOnce(tile::StoreOp store, mlir::Value a);
  std::string nameOf(int gradient) const;
  void note(int gradient, const SharedOwnership &shared);

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
  /// Copies of what a block computes besides tangents, without what it stores.
  void recompute(mlir::Block &source);

  //===--- loops ---===//

  /// The rounds of a loop in reverse order. Each computes anew what its transpose needs, and passes
  /// the adjoints of what the loop carries to the round before.
  void transposeFor(mlir::scf::ForOp loop);
  llvm::BitVector wantedTangents(mlir::scf::ForOp loop, bool &none) const;
  struct Rounds;
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
  /// The states after a round.
  llvm::SmallVector<mlir::Value> nextStates(const Rounds &rounds, mlir::ValueRange states,
                                            mlir::Value number, const llvm::BitVector &needed);
  /// Removes what computes nothing that is used.
  void eraseDead(mlir::Block &block);

  //===--- what is left of forward mode ---===//

  /// Removes linear operations, all of whose users are linear. Branches give zeros in their place,
  /// and loops carry zeros.
  void strip(llvm::ArrayRef<mlir::Operation *> ops);
  /// Other values may come to the place of those of an operation that is erased.
  void forget(mlir::Operation *op);
  static bool isInCombiner(mlir::Operation *op);
  static bool isWrite(mlir::Operation *op);
  static void dropWritesIn(mlir::Operation *op);

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
