// Products of tiles (AMX). Eight tile registers: a block of 2 x 2 tiles of C stays in four of them
// for all of K, each step loads two tiles of A and two of B and takes four products. A product
// occupies the unit for 16 clocks and a load takes 8, so the loads of a step (32) hide behind its
// products (64).
//
// The instructions name their registers, so that one setup serves the whole kernel: LLVM's register
// allocation of tiles would set them up again after every call. All tiles have the full size. A
// tile at the edge of C is computed from zero into memory beside C, and the part that exists is
// added to C by vectors.
#include "targets/cpu/dot/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::cpu {
namespace {

using namespace mlir;

constexpr int64_t tileRowBytes = 4 * tileSize, tileBytes = tileSize * tileRowBytes;
constexpr const char *configurationName = "nereid_tile_configuration";

// The registers: of C from 0 on, row by row of the block, then of A and of B.
constexpr int firstOfA = 4, firstOfB = 6;

class TileEmitter {
public:
  TileEmitter(OpBuilder &b, Location loc, const DotBlocking &plan, const DotOperands &operands)
      : b(b), loc(loc), plan(plan), operands(operands),
        accumulator(accumulatorType(b.getContext(), *plan.unit)),
        aRowBytes(index(4 * operands.aRowStride)), cRowBytes(index(4 * operands.cRowStride)),
        packedRowBytes(index(tileRowBytes)),
        bRowBytes(operands.bPacked ? packedRowBytes : index(4 * operands.bRowStride)),
        panelBytes(operands.bPacked ? plan.k * tileRowBytes : tileRowBytes),
        stepBytes(operands.bPacked ? tileBytes : tileSize * 4 * operands.bRowStride) {}

  // A's rows outside: two tiles of them stay in the first-level cache while B passes by. (The other
  // way round a bf16 product of 512 took 9 % longer: docs/notes/performance.md.)
  void emit() {
    forPairs(plan.m, [&](Value row, int64_t rows, int64_t height) {
      forPairs(plan.n, [&](Value column, int64_t columns, int64_t width) {
        emitBlock({row, rows, height}, {column, columns, width});
      });
    });
  }

private:
  /// Tiles along a dimension: the first element, how many tiles, and elements of the last one.
  struct Side {
    Value first;
    int64_t tiles, last;
    bool isWhole() const { return last == tileSize; }
  };

  // `body` for pairs of whole tiles, then for a single one, then for the rest of fewer elements.
  template <typename Body> void forPairs(int64_t size, Body body) {
    int64_t whole = size / tileSize, pairs = whole / 2;
    if (pairs == 1) {
      body(index(0), 2, tileSize);
    } else if (pairs) {
      auto loop =
          scf::ForOp::create(b, loc, index(0), index(2 * pairs * tileSize), index(2 * tileSize));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      body(loop.getInductionVar(), 2, tileSize);
    }
    if (whole % 2)
      body(index(2 * pairs * tileSize), 1, tileSize);
    if (size % tileSize)
      body(index(whole * tileSize), 1, size % tileSize);
  }

  void emitBlock(Side rows, Side columns) {
    bool whole = rows.isWhole() && columns.isWhole();
    Value c = advance(advance(operands.c, times(rows.first, operands.cRowStride * 4)),
                      times(columns.first, 4));
    auto placeInC = [&](int64_t row, int64_t column) {
      return advance(c, index(row * tileSize * operands.cRowStride * 4 + column * tileRowBytes));
    };
    auto forTiles = [&](auto body) {
      for (int64_t row = 0; row < rows.tiles; ++row)
        for (int64_t column = 0; column < columns.tiles; ++column)
          body(int(row * columns.tiles + column), row, column);
    };
    auto clear = [&] {
      forTiles([&](int tile, int64_t, int64_t) { call("llvm.x86.tilezero", {number(tile)}); });
    };
    auto fetch = [&] {
      forTiles([&](int tile, int64_t row, int64_t column) {
        loadTile(tile, placeInC(row, column), cRowBytes);
      });
    };
    if (!whole || operands.zeroC) {
      clear();
    } else if (operands.fresh) {
      auto either = scf::IfOp::create(b, loc, operands.fresh, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(either.thenBlock());
      clear();
      b.setInsertionPointToStart(either.elseBlock());
      fetch();
    } else {
      fetch();
    }
    emitSteps(rows, columns);
    if (!whole)
      return addEdge(c, rows.last, columns.last, rows.tiles, columns.tiles);
    forTiles([&](int tile, int64_t row, int64_t column) {
      storeTile(tile, placeInC(row, column), cRowBytes);
    });
  }

  void emitSteps(Side rows, Side columns) {
    Value a = advance(operands.a, times(rows.first, operands.aRowStride * 4));
    Value bPanels = advance(operands.b, times(columns.first, panelBytes / tileSize));
    auto step = [&](Value number) {
      Value aHere = advance(a, times(number, tileRowBytes));
      Value bHere = advance(bPanels, times(number, stepBytes));
      for (int64_t column = 0; column < columns.tiles; ++column)
        loadTile(firstOfB + int(column), advance(bHere, index(column * panelBytes)), bRowBytes);
      for (int64_t row = 0; row < rows.tiles; ++row) {
        int left = firstOfA + int(row);
        loadTile(left, advance(aHere, index(row * tileSize * operands.aRowStride * 4)), aRowBytes);
        for (int64_t column = 0; column < columns.tiles; ++column)
          call(plan.unit->intrinsics[0],
               {this->number(int(row * columns.tiles + column)), this->number(left),
                this->number(firstOfB + int(column))});
      }
    };
    int64_t steps = plan.k / tileSize;
    if (steps == 1)
      return step(index(0));
    auto loop = scf::ForOp::create(b, loc, index(0), index(steps), index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    step(loop.getInductionVar());
  }

  // Adds the first `height` rows and `width` columns of the block to C.
  void addEdge(Value c, int64_t height, int64_t width, int64_t rowTiles, int64_t columnTiles) {
    for (int64_t row = 0; row < rowTiles; ++row)
      for (int64_t column = 0; column < columnTiles; ++column) {
        storeTile(int(row * columnTiles + column), operands.edge, packedRowBytes);
        int64_t rows = row + 1 == rowTiles ? height : tileSize;
        int64_t columns = column + 1 == columnTiles ? width : tileSize;
        Value place =
            advance(c, index(row * tileSize * operands.cRowStride * 4 + column * tileRowBytes));
        addRows(place, rows, columns);
      }
  }

  void addRows(Value c, int64_t rows, int64_t columns) {
    auto loop = scf::ForOp::create(b, loc, index(0), index(rows), index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value row = loop.getInductionVar();
    Value from = advance(operands.edge, times(row, tileRowBytes));
    Value to = advance(c, times(row, operands.cRowStride * 4));
    for (int64_t column = 0, width = tileSize; width; width /= 2)
      for (; columns - column >= width; column += width) {
        Type type = width == 1 ? accumulator : Type(VectorType::get({width}, accumulator));
        auto at = [&](Value place) { return advance(place, index(4 * column)); };
        Value sum = LLVM::LoadOp::create(b, loc, type, at(from), 4);
        if (!operands.zeroC)
          sum = added(sum, oldOf(type, at(to)));
        LLVM::StoreOp::create(b, loc, sum, at(to), 4);
      }
  }

  // What is in C; 0 where the product is told that C is fresh.
  Value oldOf(Type type, Value place) {
    Value old = LLVM::LoadOp::create(b, loc, type, place, 4);
    if (!operands.fresh)
      return old;
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    return arith::SelectOp::create(b, loc, operands.fresh, zero, old);
  }
  Value added(Value x, Value y) {
    if (isa<IntegerType>(accumulator))
      return arith::AddIOp::create(b, loc, x, y);
    return arith::AddFOp::create(b, loc, x, y);
  }

  Value index(int64_t value) { return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value); }
  Value number(int tile) {
    return LLVM::ConstantOp::create(b, loc, b.getI8Type(), b.getI8IntegerAttr(int8_t(tile)));
  }
  Value times(Value value, int64_t factor) {
    return arith::MulIOp::create(b, loc, value, index(factor));
  }
  Value advance(Value pointer, Value bytes) {
    return LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer,
                               llvm::ArrayRef<LLVM::GEPArg>{bytes});
  }
  void call(const char *intrinsic, ValueRange arguments) {
    LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(intrinsic), arguments);
  }
  void loadTile(int tile, Value place, Value rowBytes) {
    call("llvm.x86.tileloadd64", {number(tile), place, rowBytes});
  }
  void storeTile(int tile, Value place, Value rowBytes) {
    call("llvm.x86.tilestored64", {number(tile), place, rowBytes});
  }

  OpBuilder &b;
  Location loc;
  const DotBlocking &plan;
  const DotOperands &operands;
  Type accumulator;
  Value aRowBytes, cRowBytes, packedRowBytes, bRowBytes;
  int64_t panelBytes, stepBytes; // from a panel of B's columns, or a step, to the next one
};

} // namespace

void emitTileDot(OpBuilder &builder, Location loc, const DotBlocking &plan,
                 const DotOperands &operands) {
  TileEmitter(builder, loc, plan, operands).emit();
}

void emitTileSetup(OpBuilder &builder, Location loc, ModuleOp module) {
  if (!module.lookupSymbol(configurationName)) {
    // Palette 1; from byte 16 on the bytes of a row of each tile, 16 bits each, from byte 48 on the
    // rows.
    std::string bytes(64, '\0');
    bytes[0] = 1;
    for (int tile = 0; tile < 8; ++tile) {
      bytes[16 + 2 * tile] = char(tileRowBytes);
      bytes[48 + tile] = char(tileSize);
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto array = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    LLVM::GlobalOp::create(builder, loc, array, true, LLVM::Linkage::Internal, configurationName,
                           builder.getStringAttr(bytes), 64);
  }
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value configuration = LLVM::AddressOfOp::create(builder, loc, pointer, configurationName);
  LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr("llvm.x86.ldtilecfg"),
                                ValueRange(configuration));
}

void emitTileRelease(OpBuilder &builder, Location loc) {
  LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr("llvm.x86.tilerelease"),
                                ValueRange());
}

} // namespace nereid::cpu
