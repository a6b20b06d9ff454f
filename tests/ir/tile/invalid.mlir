// Every message of the verifiers.
// RUN: nereid-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: f32) {
  // expected-error @+1 {{result #0 must be tile tensor of}}
  %0 = tile.splat %x : f32 -> tensor<f32>
  return
}

// -----

func.func @f(%x: f32) {
  // expected-error @+1 {{result #0 must be tile tensor of}}
  %0 = tile.splat %x : f32 -> tensor<0xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{attribute 'axis' failed to satisfy constraint}}
  %0 = tile.program_id 3
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{end must be greater than start, found 4 to 4}}
  %0 = tile.range 4 to 4 : tensor<1xi32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{must give tensor<8xi32>, found 'tensor<4xi32>'}}
  %0 = tile.range 0 to 8 : tensor<4xi32>
  return
}

// -----

func.func @f(%x: f32) {
  // expected-error @+1 {{result must have elements of type 'f32', found 'tensor<4xf16>'}}
  %0 = tile.splat %x : f32 -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{expects a tensor of one element, found 'tensor<2xf32>'}}
  %0 = tile.unsplat %x : tensor<2xf32> -> f32
  return
}

// -----

func.func @f(%x: tensor<1xf32>) {
  // expected-error @+1 {{result must be of type 'f32', found 'f16'}}
  %0 = tile.unsplat %x : tensor<1xf32> -> f16
  return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{cannot repeat a dimension of size 2 to 4}}
  %0 = tile.broadcast %x : tensor<2x4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{source and result must have the same rank}}
  %0 = tile.broadcast %x : tensor<4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must have elements of type 'f32'}}
  %0 = tile.broadcast %x : tensor<4xf32> -> tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{axis 2 is out of range for 'tensor<4xf32>'}}
  %0 = tile.expand_dims %x 2 : tensor<4xf32> -> tensor<4x1x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<1x4xf32>', found 'tensor<4x1xf32>'}}
  %0 = tile.expand_dims %x 0 : tensor<4xf32> -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{must keep the number of elements: 4 in 'tensor<4xf32>', 3 in 'tensor<3x1xf32>'}}
  %0 = tile.reshape %x : tensor<4xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must have elements of type 'f32'}}
  %0 = tile.reshape %x : tensor<4xf32> -> tensor<2x2xf16>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{order must name each of the 2 dimensions once}}
  %0 = tile.trans %x [0, 0] : tensor<4x2xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{order must name each of the 2 dimensions once}}
  %0 = tile.trans %x [1, 2] : tensor<4x2xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{order must name each of the 2 dimensions once}}
  %0 = tile.trans %x [1] : tensor<4x2xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<2x4xf32>'}}
  %0 = tile.trans %x [1, 0] : tensor<4x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<4x2xf32>'}}
  %0 = tile.join %x, %x : tensor<4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects a last dimension of size 2}}
  %0:2 = tile.split %x : tensor<4xf32> -> tensor<2xf32>, tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{second result must be of type 'tensor<4xf32>', found 'f32'}}
  %0:2 = tile.split %x : tensor<4x2xf32> -> tensor<4xf32>, f32
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>, %y: tensor<3x3xf32>) {
  // expected-error @+1 {{operands must agree in dimension 1}}
  %0 = tile.cat %x, %y along 0 : tensor<4x2xf32>, tensor<3x3xf32> -> tensor<7x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{cannot concatenate}}
  %0 = tile.cat %x, %x along 2 : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<4x4xf32>'}}
  %0 = tile.cat %x, %x along 1 : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @f(%p: tensor<8x!tile.ptr<f32>>, %o: i32) {
  // expected-error @+1 {{offset must have the shape of the pointer: expected 'tensor<8xi32>', found 'i32'}}
  %0 = tile.addptr %p, %o : tensor<8x!tile.ptr<f32>>, i32
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>, %o: i1) {
  // expected-error @+1 {{takes offsets of 8 to 64 bits, found i1}}
  %0 = tile.addptr %p, %o : !tile.ptr<f32>, i1
  return
}

// -----

func.func @f(%x: i32) {
  // expected-error @+1 {{expects 64-bit integers, found 'i32'}}
  %0 = tile.int_to_ptr %x : i32 -> !tile.ptr<f32>
  return
}

// -----

func.func @f(%x: tensor<4xi64>) {
  // expected-error @+1 {{if an operand is non-scalar, then there must be at least one non-scalar result}}
  %0 = tile.int_to_ptr %x : tensor<4xi64> -> !tile.ptr<f32>
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{gives 64-bit integers, found 'i32'}}
  %0 = tile.ptr_to_int %p : !tile.ptr<f32> -> i32
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{cannot change the address space}}
  %0 = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<f32, 3>
  return
}

// -----

func.func @f(%x: f32) {
  // expected-error @+1 {{is written as `arith.extf` or `arith.truncf`}}
  %0 = tile.fp_cast %x : f32 -> f16
  return
}

// -----

func.func @f(%x: f16) {
  // expected-error @+1 {{rounds towards zero only where it narrows}}
  %0 = tile.fp_cast %x rounding rtz : f16 -> f32
  return
}

// -----

func.func @f(%x: f8E5M2) {
  // expected-error @+1 {{must change the type}}
  %0 = tile.fp_cast %x : f8E5M2 -> f8E5M2
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{all non-scalar operands/results must have the same shape}}
  %0 = tile.fp_cast %x : tensor<4xf32> -> tensor<5xf8E5M2>
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{result must be of type 'f32', found 'f16'}}
  %0 = tile.load %p : !tile.ptr<f32> -> f16
  return
}

// -----

func.func @f(%p: !tile.ptr<i1>) {
  // expected-error @+1 {{booleans are accessed through an i8 pointer}}
  %0 = tile.load %p : !tile.ptr<i1> -> i1
  return
}

// -----

func.func @f(%p: tensor<8x!tile.ptr<f32>>, %m: tensor<4xi1>) {
  // expected-error @+1 {{mask must have the shape of the pointer: expected 'tensor<8xi1>', found 'tensor<4xi1>'}}
  %0 = tile.load %p mask %m : tensor<8x!tile.ptr<f32>>, mask tensor<4xi1> -> tensor<8xf32>
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>, %o: f32) {
  // expected-error @+1 {{has `other` without a mask}}
  %0 = "tile.load"(%p, %o) <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (!tile.ptr<f32>, f32) -> f32
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>, %m: i1, %o: f16) {
  // expected-error @+1 {{other must be of type 'f32', found 'f16'}}
  %0 = tile.load %p mask %m other %o : !tile.ptr<f32>, mask i1, other f16 -> f32
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>, %x: tensor<1xf32>) {
  // expected-error @+1 {{value must be of type 'f32', found 'tensor<1xf32>'}}
  tile.store %p, %x : !tile.ptr<f32>, tensor<1xf32>
  return
}

// -----

func.func @f(%p: !tile.ptr<f32>, %x: f32) {
  // expected-error @+1 {{add needs integers, found 'f32'}}
  %0 = tile.atomic_rmw add %p, %x : !tile.ptr<f32>, f32
  return
}

// -----

func.func @f(%p: !tile.ptr<i32>, %x: i32) {
  // expected-error @+1 {{fmax needs floats, found 'i32'}}
  %0 = tile.atomic_rmw fmax %p, %x : !tile.ptr<i32>, i32
  return
}

// -----

func.func @f(%p: !tile.ptr<i32>, %x: i64) {
  // expected-error @+1 {{value must be of type 'i32', found 'i64'}}
  %0 = tile.atomic_cas %p, %x, %x : !tile.ptr<i32>, i64
  return
}

// -----

func.func @f(%p: !tile.ptr<i32>) {
  // expected-error @+1 {{must be acquire or relaxed, found release}}
  %0 = tile.atomic_load %p sem release : !tile.ptr<i32> -> i32
  return
}

// -----

func.func @f(%p: !tile.ptr<i32>, %x: i32) {
  // expected-error @+1 {{must be release or relaxed, found acq_rel}}
  tile.atomic_store %p, %x sem acq_rel : !tile.ptr<i32>, i32
  return
}

// -----

func.func @f(%p: !tile.ptr<i32>) {
  // expected-error @+1 {{result must be of type 'i32', found 'i64'}}
  %0 = tile.atomic_load %p : !tile.ptr<i32> -> i64
  return
}

// -----

func.func @f(%x: f32) {
  // expected-error @+1 {{every operand must have the shape of the result}}
  %0 = tile.extern_elementwise "f" from "l" (%x) : (f32) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %b2: tensor<16x4xf16>, %b3: tensor<8x4xbf16>, %b4: tensor<2x8x4xf16>, %c: tensor<16x4xf32>, %c2: tensor<4x4xf32>, %c3: tensor<16x4xf64>, %v: tensor<16xf16>) {
  // expected-error @+1 {{inner dimensions must agree: 8 columns in 'tensor<16x8xf16>', 16 rows in 'tensor<16x4xf16>'}}
  %0 = tile.dot %a, %b2, %c : tensor<16x8xf16>, tensor<16x4xf16> -> tensor<16x4xf32>
  return
}

// -----

func.func @f(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %b2: tensor<16x4xf16>, %b3: tensor<8x4xbf16>, %b4: tensor<2x8x4xf16>, %c: tensor<16x4xf32>, %c2: tensor<4x4xf32>, %c3: tensor<16x4xf64>, %v: tensor<16xf16>) {
  // expected-error @+1 {{the accumulator must be 16x4}}
  %0 = tile.dot %a, %b, %c2 : tensor<16x8xf16>, tensor<8x4xf16> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %b2: tensor<16x4xf16>, %b3: tensor<8x4xbf16>, %b4: tensor<2x8x4xf16>, %c: tensor<16x4xf32>, %c2: tensor<4x4xf32>, %c3: tensor<16x4xf64>, %v: tensor<16xf16>) {
  // expected-error @+1 {{operands must have the same element type}}
  %0 = tile.dot %a, %b3, %c : tensor<16x8xf16>, tensor<8x4xbf16> -> tensor<16x4xf32>
  return
}

// -----

func.func @f(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %b2: tensor<16x4xf16>, %b3: tensor<8x4xbf16>, %b4: tensor<2x8x4xf16>, %c: tensor<16x4xf32>, %c2: tensor<4x4xf32>, %c3: tensor<16x4xf64>, %v: tensor<16xf16>) {
  // expected-error @+1 {{cannot multiply 'f16' and accumulate in 'f64'}}
  %0 = tile.dot %a, %b, %c3 : tensor<16x8xf16>, tensor<8x4xf16> -> tensor<16x4xf64>
  return
}

// -----

func.func @f(%a: tensor<16x8xf16>, %b: tensor<8x4xf16>, %b2: tensor<16x4xf16>, %b3: tensor<8x4xbf16>, %b4: tensor<2x8x4xf16>, %c: tensor<16x4xf32>, %c2: tensor<4x4xf32>, %c3: tensor<16x4xf64>, %v: tensor<16xf16>) {
  // expected-error @+1 {{operands must have the same rank of at least 2}}
  %0 = tile.dot %a, %b4, %c : tensor<16x8xf16>, tensor<2x8x4xf16> -> tensor<16x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x4x4xf32>, %b: tensor<3x4x4xf32>) {
  // expected-error @+1 {{batch dimensions must agree}}
  %0 = tile.dot %a, %b, %a : tensor<2x4x4xf32>, tensor<3x4x4xf32> -> tensor<2x4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{axis 2 is out of range for 'tensor<4x8xf32>'}}
  %0 = tile.reduce(%x) axis 2 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{the combiner must take 2 arguments, found 1}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{combiner argument must be of type 'f32', found 'f16'}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f16):
    tile.yield %a : f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{the combiner must yield 1 values, found 2}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{yielded value must be of type 'f32', found 'f16'}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %h = arith.truncf %a : f32 to f16
    tile.yield %h : f16
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{the combiner must end in `tile.yield`}}
  %0 = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{result must be of type 'tensor<4x8xf32>'}}
  %0 = tile.scan(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{every operand must have the shape of the first}}
  %0:2 = tile.reduce(%x, %y) axis 0 {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<8xf32>, f32)
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{speaks of integers and pointers}}
  %0 = tile.hint %x divisibility [4] : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{divisibility must have 1 numbers, found 2}}
  %0 = tile.hint %x divisibility [4, 4] : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{contiguity must be positive, found 0}}
  %0 = tile.hint %x contiguity [0] : tensor<4xi32>
  return
}

// -----

func.func @f(%c: tensor<4xi1>, %m: i1) {
  // expected-error @+1 {{mask must have the shape of the condition}}
  tile.assert %c, "x" mask %m : tensor<4xi1>, i1
  return
}

// -----

func.func @f(%x: i32) {
  // expected-error @+1 {{needs one signedness per value: 1 values, 0 given}}
  tile.print "x" hex false signed [] : %x : i32
  return
}

// -----

// expected-error @+1 {{a descriptor has 1 to 5 dimensions of positive size, found 6}}
func.func @f(%d: !tile.desc<2x2x2x2x2x2xf32>) { return }

// -----

// expected-error @+1 {{a descriptor has elements of one to eight bytes, found 'i1'}}
func.func @f(%d: !tile.desc<16xi1>) { return }

// -----

// expected-error @+1 {{integers cannot be padded with NaN}}
func.func @f(%d: !tile.desc<16xi32, nan>) { return }

// -----

// expected-error @+1 {{expected `zero` or `nan`}}
func.func @f(%d: !tile.desc<16xf32, one>) { return }

// -----

func.func @f(%p: !tile.ptr<f16>, %n: i32) {
  // expected-error @+1 {{needs a pointer to 'f32' in global memory, found '!tile.ptr<f16>'}}
  %0 = tile.make_descriptor %p [%n] strides [] : !tile.ptr<f16> -> !tile.desc<16xf32>
  return
}

// -----

func.func @f(%p: !tile.ptr<f16>, %n: i32) {
  // expected-error @+1 {{is optional for a copy engine: needs `copy_engine`}}
  %0 = tile.make_descriptor %p [%n] strides [] optional : !tile.ptr<f16> -> !tile.desc<16xf16>
  return
}

// -----

func.func @f(%p: !tile.ptr<f16>, %n: i32) {
  // expected-error @+1 {{needs 2 sizes and 1 strides for '!tile.desc<4x16xf16>', found 2 and 0}}
  %0 = tile.make_descriptor %p [%n, %n] strides [] : !tile.ptr<f16> -> !tile.desc<4x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>) {
  // expected-error @+1 {{dimension 2 is out of range for '!tile.desc<4x16xf16>'}}
  %0 = tile.desc_shape %d 2 : !tile.desc<4x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>, %n: i32) {
  // expected-error @+1 {{needs one coordinate per dimension: expected 2, found 1}}
  %0 = tile.desc_load %d [%n] : !tile.desc<4x16xf16> -> tensor<4x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>, %n: i32) {
  // expected-error @+1 {{result must have elements of type 'f16', found 'tensor<4x16xf32>'}}
  %0 = tile.desc_load %d [%n, %n] : !tile.desc<4x16xf16> -> tensor<4x16xf32>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>, %n: i32, %v: tensor<16x4xf16>) {
  // expected-error @+1 {{value must have the shape of the block: expected 'tensor<4x16xf16>', found 'tensor<16x4xf16>'}}
  tile.desc_store %d [%n, %n], %v : !tile.desc<4x16xf16>, tensor<16x4xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>, %n: i32, %v: tensor<4x16xf16>) {
  // expected-error @+1 {{cannot add elements of type 'f16'}}
  tile.desc_reduce add %d [%n, %n], %v : !tile.desc<4x16xf16>, tensor<4x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<4x16xf16>, %n: i32, %rows: tensor<8xi32>) {
  // expected-error @+1 {{needs blocks of one row, found '!tile.desc<4x16xf16>'}}
  %0 = tile.desc_gather %d [%rows, %n] : !tile.desc<4x16xf16>, tensor<8xi32> -> tensor<8x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<1x16xf16>, %n: i32, %rows: tensor<8x1xi32>) {
  // expected-error @+1 {{needs a vector of rows, found 'tensor<8x1xi32>'}}
  %0 = tile.desc_gather %d [%rows, %n] : !tile.desc<1x16xf16>, tensor<8x1xi32> -> tensor<8x16xf16>
  return
}

// -----

func.func @f(%d: !tile.desc<1x16xf16>, %n: i32, %rows: tensor<8xi32>, %v: tensor<8x8xf16>) {
  // expected-error @+1 {{value must be of type 'tensor<8x16xf16>', found 'tensor<8x8xf16>'}}
  tile.desc_scatter %d [%rows, %n], %v : !tile.desc<1x16xf16>, tensor<8xi32>, tensor<8x8xf16>
  return
}
