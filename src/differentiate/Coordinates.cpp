#include "differentiate/Coordinates.h"

#include "differentiate/Ownership.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::differentiate {

bool isSame(Value a, Value b, unsigned depth) {
  if (a == b)
    return true;
  APInt x, y;
  if (matchPattern(a, m_ConstantInt(&x)) && matchPattern(b, m_ConstantInt(&y)))
    return a.getType() == b.getType() && x == y;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  return depth && left && right && left->getName() == right->getName() &&
         left->getNumRegions() == 0 && left->getNumResults() == 1 && isMemoryEffectFree(left) &&
         left->getAttrDictionary() == right->getAttrDictionary() && a.getType() == b.getType() &&
         left->getNumOperands() == right->getNumOperands() &&
         llvm::all_of(llvm::zip(left->getOperands(), right->getOperands()), [&](auto pair) {
           return isSame(std::get<0>(pair), std::get<1>(pair), depth - 1);
         });
}

namespace {

using Values = SmallVector<Value>;

/// Tiles in groups of `height` rows; within a group the row runs fastest:
///
///   group = p / (height * columns)       first = group * height
///   size = min(rows - first, height)     inside = p % (height * columns)
///   row = first + inside % size          column = inside / size
///
/// `p % size` in place of `inside % size` turns the rows of the last group, and gives each its
/// columns all the same. A kernel with both has two rows.
struct Groups {
  Value width, height, rows, columns;
  Values first, size, inside, turned, row, column;

  bool match(ArrayRef<Value> ids) {
    Values group, rest;
    for (Value user : resultsOf<arith::DivSIOp>(ids, 0)) {
      width = width ? width : operand(user, 1);
      if (!isSame(operand(user, 1), width))
        return false;
      group.push_back(user);
    }
    if (group.empty())
      return false;
    for (Value user : resultsOf<arith::MulIOp>(group)) {
      Value other = otherOf(user, group);
      height = height ? height : other;
      if (!isSame(other, height))
        return false;
      first.push_back(user);
    }
    auto product = width.getDefiningOp<arith::MulIOp>();
    if (first.empty() || !product)
      return false;
    if (isSame(product.getLhs(), height))
      columns = product.getRhs();
    else if (isSame(product.getRhs(), height))
      columns = product.getLhs();
    else
      return false;
    for (Value user : resultsOf<arith::SubIOp>(first, 1)) {
      rows = rows ? rows : operand(user, 0);
      if (!isSame(operand(user, 0), rows))
        return false;
      rest.push_back(user);
    }
    for (Value user : resultsOf<arith::MinSIOp>(rest)) {
      if (!isSame(otherOf(user, rest), height))
        return false;
      size.push_back(user);
    }
    for (Value user : resultsOf<arith::RemSIOp>(ids, 0))
      if (isSame(operand(user, 1), width))
        inside.push_back(user);
      else if (llvm::is_contained(size, operand(user, 1)))
        turned.push_back(user);
      else
        return false;
    bool isTurned = !turned.empty();
    for (Value user : resultsOf<arith::RemSIOp>(inside, 0)) {
      if (isTurned || !llvm::is_contained(size, operand(user, 1)))
        return false;
      turned.push_back(user);
    }
    for (Value user : resultsOf<arith::DivSIOp>(inside, 0)) {
      if (!llvm::is_contained(size, operand(user, 1)))
        return false;
      column.push_back(user);
    }
    for (Value user : resultsOf<arith::AddIOp>(turned)) {
      if (!llvm::is_contained(first, otherOf(user, turned)))
        return false;
      row.push_back(user);
    }
    Values known;
    for (ArrayRef<Value> values :
         {ArrayRef<Value>(group), ArrayRef<Value>(first), ArrayRef<Value>(rest),
          ArrayRef<Value>(size), ArrayRef<Value>(inside), ArrayRef<Value>(turned)})
      known.append(values.begin(), values.end());
    auto areInside = [&](ArrayRef<Value> values) {
      return llvm::all_of(values, [&](Value value) {
        return llvm::all_of(value.getUsers(), [&](Operation *user) {
          return user->getNumResults() == 1 && (llvm::is_contained(known, user->getResult(0)) ||
                                                llvm::is_contained(row, user->getResult(0)) ||
                                                llvm::is_contained(column, user->getResult(0)));
        });
      });
    };
    return rows && areInside(ids) && areInside(known);
  }

private:
  static Value operand(Value result, unsigned i) { return result.getDefiningOp()->getOperand(i); }
  static Value otherOf(Value result, ArrayRef<Value> one) {
    return llvm::is_contained(one, operand(result, 0)) ? operand(result, 1) : operand(result, 0);
  }
  /// What operations of a kind make of these values, once each; `at` is their place.
  template <typename Op> static Values resultsOf(ArrayRef<Value> values, int at = -1) {
    Values results;
    for (Value value : values)
      for (OpOperand &use : value.getUses())
        if (isa<Op>(use.getOwner()) && (at < 0 || use.getOperandNumber() == unsigned(at)) &&
            !llvm::is_contained(results, use.getOwner()->getResult(0)))
          results.push_back(use.getOwner()->getResult(0));
    return results;
  }
};

class Finder {
public:
  Finder(func::FuncOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), loc(kernel.getLoc()) {}

  Coordinates run() {
    result.holds = arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
    SmallVector<Values> ids(3);
    kernel.walk([&](tile::ProgramIdOp id) {
      if (id->getParentOp() != kernel)
        result.why = "a program id is read in a branch or in a loop";
      ids[id.getAxis()].push_back(id);
    });
    if (!result.why.empty())
      return std::move(result);
    for (unsigned axis = 0; axis < 3; ++axis) {
      Value count = tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), axis);
      std::string name = "program_id(" + std::to_string(axis) + ")";
      if (!ids[axis].empty())
        takeApart(ids[axis], count, name, 3);
      else
        require(arith::CmpIPredicate::eq, count, number(1),
                "the grid has one program along axis " + std::to_string(axis));
    }
    return std::move(result);
  }

private:
  Value number(int32_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }

  void require(arith::CmpIPredicate predicate, Value a, Value b, const std::string &words) {
    Value also = arith::CmpIOp::create(builder, loc, predicate, a, b);
    result.holds = arith::AndIOp::create(builder, loc, result.holds, also);
    if (!words.empty())
      result.words += (result.words.empty() ? "" : " and ") + words;
  }

  /// Returns the number of the position. In groups of rows there is none, unless `mayGroup`.
  unsigned takeApart(ArrayRef<Value> values, Value extent, const std::string &name, unsigned depth,
                     bool mayGroup = true) {
    if (mayGroup && depth && inGroups(values, extent, name))
      return 0;
    Value width;
    Values quotients, remainders;
    bool hasOthers = false;
    for (Value value : values)
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        bool isDivided = isa<arith::DivSIOp, arith::RemSIOp>(user) && use.getOperandNumber() == 0 &&
                         isUsable(user->getOperand(1)) &&
                         (!width || isSame(user->getOperand(1), width));
        if (!isDivided) {
          hasOthers = true;
          continue;
        }
        width = user->getOperand(1);
        (isa<arith::DivSIOp>(user) ? quotients : remainders).push_back(user->getResult(0));
      }
    if (!width || !depth)
      return add(values, extent, name);
    Value divisor = arith::MaxSIOp::create(builder, loc, width, number(1));
    require(arith::CmpIPredicate::sgt, width, number(0), "");
    require(arith::CmpIPredicate::eq, arith::RemSIOp::create(builder, loc, extent, divisor),
            number(0), "the tiles that " + name + " counts fill the grid");
    Value count = arith::DivSIOp::create(builder, loc, extent, divisor);
    if (quotients.empty())
      quotients.push_back(arith::DivSIOp::create(builder, loc, values[0], divisor));
    if (remainders.empty())
      remainders.push_back(arith::RemSIOp::create(builder, loc, values[0], divisor));
    unsigned quotient =
        takeApart(quotients, count, "the quotient of " + name, depth - 1, !hasOthers);
    unsigned remainder =
        takeApart(remainders, width, "the remainder of " + name, depth - 1, !hasOthers);
    if (hasOthers)
      result.positions.push_back({Values(values), 0, width, quotient, remainder});
    return result.positions.size() - 1;
  }

  static bool isUsable(Value value) { return value.getType().isInteger(32) && isUniform(value); }

  bool inGroups(ArrayRef<Value> values, Value extent, const std::string &name) {
    Groups groups;
    if (!groups.match(values) || !isUsable(groups.rows) || !isUsable(groups.columns) ||
        !isUsable(groups.height))
      return false;
    for (Value positive : {groups.rows, groups.columns, groups.height})
      require(arith::CmpIPredicate::sgt, positive, number(0), "");
    // In 64 bits, which the product of two such numbers fits.
    auto wide = [&](Value value) -> Value {
      return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value);
    };
    require(arith::CmpIPredicate::eq, wide(extent),
            arith::MulIOp::create(builder, loc, wide(groups.rows), wide(groups.columns)),
            name + " counts all tiles in groups of rows");
    result.all.push_back({groups.row, groups.rows, "the row of tiles in " + name});
    result.all.push_back({groups.column, groups.columns, "the column of tiles in " + name});
    return true;
  }

  unsigned add(ArrayRef<Value> values, Value extent, const std::string &name) {
    result.all.push_back({Values(values), extent, name});
    result.positions.push_back({Values(values), unsigned(result.all.size() - 1), Value(), 0, 0});
    return result.positions.size() - 1;
  }

  func::FuncOp kernel;
  OpBuilder &builder;
  Location loc;
  Coordinates result;
};

} // namespace

Coordinates coordinatesOf(func::FuncOp kernel, OpBuilder &builder) {
  return Finder(kernel, builder).run();
}

} // namespace nereid::differentiate
