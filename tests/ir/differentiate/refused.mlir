// RUN: nereid-opt --differentiate --split-input-file --verify-diagnostics %s
// What only IR can show; the others are in tests/differentiation/test_jvp_refused.py.

func.func @region(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  // expected-error @below {{`scf.execute_region` cannot be differentiated: the front end does not make it}}
  %1 = scf.execute_region -> f32 {
    scf.yield %0 : f32
  }
  tile.store %y, %1 : !tile.ptr<f32>, f32
  return
}

// -----

func.func @sincos(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  // expected-error @below {{`math.sincos` cannot be differentiated: it has no rule; write `sin(x)` and `cos(x)`}}
  %sin, %cos = math.sincos %0 : f32
  tile.store %y, %sin : !tile.ptr<f32>, f32
  return
}

// -----

// The same of a constant is no error.
func.func @constant(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                    %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %c = arith.constant 1.0 : f32
  %sin, %cos = math.sincos %c : f32
  %1 = arith.mulf %0, %sin : f32
  tile.store %y, %1 : !tile.ptr<f32>, f32
  return
}
