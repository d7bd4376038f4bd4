// Special functions of float and double as vector code: within their intervals, without branches or calls.
//
// Each function says for which arguments it holds (`*_holds`); callers send others to special_functions.h. Errors stay
// within a few units in the last place, those of `digamma` and `lgamma` relative to the largest of their terms. The
// polynomials interpolate at Chebyshev's points of their intervals, scaled to [-1, 1]; coefficients of the highest
// power come first.
#pragma once

#include "compute/elementwise/polynomial.h"

namespace thalweg::vector_math {

template <typename V>
inline constexpr V kErfinvNear[] = {-3.4072593e-05f, 3.560786e-05f,  2.857247e-04f,   -8.456995e-04f, -4.8558787e-04f,
                                    8.529273e-03f,   -1.957385e-02f, -2.6108706e-02f, 6.166007e-01f,  1.5014094e+00f};
template <>
inline constexpr double kErfinvNear<double>[] = {
    -3.9169363297916484e-11, 3.867417238765463e-11,   4.4650677608736676e-10, -9.760204713196851e-10,
    -1.9880707100189075e-09, 1.1040417909061025e-08,  -6.70810932648382e-09,  -7.08985061397636e-08,
    1.9953933232996815e-07,  1.3583392473566449e-07,  -1.853870554105327e-06, 2.851652817060834e-06,
    8.652721877484876e-06,   -4.1432071450377935e-05, 2.0472417839420812e-05, 0.0002921906851342163,
    -0.0008341356436926482,  -0.0004878983983252155,  0.008525400950939892,   -0.019573561059547377,
    -0.02610823577739765,    0.6166006918604175,      1.501409351110792};
template <typename V>
inline constexpr V kErfinvMiddle[] = {4.1732026e-05f, -6.6864035e-05f, -1.300639e-04f, 6.24778e-04f,  -1.3747057e-03f,
                                      2.3415075e-03f, -3.7099184e-03f, 5.570313e-03f,  8.851585e-01f, 2.9513285e+00f};
template <>
inline constexpr double kErfinvMiddle<double>[] = {
    3.24350484100439e-11,    -1.6711273203716906e-10, 1.2092301339241821e-10, 1.1318133931866947e-09,
    -3.978245474609105e-09,  3.9398335983359326e-09,  1.4839133896094264e-08, -7.368909087505795e-08,
    1.2344668738547814e-07,  1.3912212495486484e-07,  -1.241704442419366e-06, 2.6532432484563894e-06,
    3.032470102601617e-07,   -1.679775686972679e-05,  4.5273523938420906e-05, -3.5957655865673615e-05,
    -0.00013425952664347502, 0.0006008359553333692,   -0.0013730404082202257, 0.002349562461162725,
    -0.003710135803565861,   0.0055693342119964235,   0.8851584844828513,     2.951328578343118};
constexpr double kErfinvFar[] = {1.5406693318720883e-10,  -1.3293062012669374e-09, 4.343235535368576e-09,
                                 -8.602142606373381e-09,  1.448547990186695e-08,   -2.4981356969630555e-08,
                                 4.729063956304302e-08,   -1.202422372376375e-07,  4.3444568296935486e-07,
                                 -1.8158869350127766e-06, 7.597427330049752e-06,   -2.9895545282672762e-05,
                                 0.00010362208442820505,  -0.0002562023112046951,  -0.000269071246849701,
                                 1.1365383104872218,      4.9761913900163};
template <typename V>
inline constexpr V kI0Near[] = {1.8943222e-03f,   -4.367326e-03f, 1.5755572e-03f,  -1.7134183e-03f, 1.3964549e-02f,
                                -2.4693772e-02f,  2.908353e-02f,  -4.0242404e-02f, 5.7111863e-02f,  -7.0382036e-02f,
                                7.92213e-02f,     -8.482782e-02f, 8.73473e-02f,    -8.90532e-02f,   9.451555e-02f,
                                -1.13004126e-01f, 2.0700192e-01f};
template <>
inline constexpr double kI0Near<double>[] = {
    4.394426308340083e-09,  -1.631130691668671e-08,  2.679771004975793e-08, -8.594601526025913e-08,
    3.659216730162776e-07,  -1.1419495259048662e-06, 3.232396382443255e-06, -9.183910794736519e-06,
    2.5198651465609148e-05, -6.55678677969644e-05,   0.0001624084559061418, -0.0003828654139905961,
    0.0008563135177565376,  -0.0018119029764120445,  0.0036171271654272855, -0.006792394821044967,
    0.011960077703464203,   -0.019682655784004566,   0.03017791206221918,   -0.04298594929673067,
    0.05677703201501785,    -0.06954119563154397,    0.07927522590752974,   -0.08496338091542556,
    0.08734341617550884,    -0.08904344136077733,    0.09451562853995125,   -0.11300432688620536,
    0.2070019212239867};
template <typename V>
inline constexpr V kI0Far[] = {3.3635803e-08f, 1.0910233e-07f, 3.038331e-07f, 1.4754756e-06f,
                               1.1141542e-05f, 1.3621741e-04f, 3.360552e-03f, 4.021765e-01f};
template <>
inline constexpr double kI0Far<double>[] = {
    -7.06893851181878e-11,   -1.9216763724933513e-11, 5.181936971288284e-10,  1.4672236659214398e-10,
    -1.7789375042917173e-09, -5.562201990080394e-10,  3.881151253996067e-09,  1.497880830187091e-09,
    -6.188265090497361e-09,  -3.4857887470034955e-09, 7.58022133915272e-09,   7.540601378890834e-09,
    -5.4685974495866e-09,    -1.3404241991980871e-08, -6.729724111923548e-09, 7.553516470355896e-09,
    2.1545177650836005e-08,  3.932602459703109e-08,   8.87225351128584e-08,   2.973598432479169e-07,
    1.4838475473607391e-06,  1.1143033791556743e-05,  0.00013621607439232746, 0.003360551983667854,
    0.4021765094450081};
template <typename V>
inline constexpr V kI1Near[] = {2.955339e-04f,  -7.2718674e-04f, 4.5886738e-04f,  -7.8278943e-04f, 3.284534e-03f,
                                -6.275491e-03f, 9.432281e-03f,   -1.5167227e-02f, 2.3732327e-02f,  -3.3794902e-02f,
                                4.4667125e-02f, -5.526015e-02f,  6.376794e-02f,   -6.848404e-02f,  6.805759e-02f,
                                -6.112431e-02f, 4.468771e-02f};
template <>
inline constexpr double kI1Near<double>[] = {
    3.6696752013169966e-10, -1.4165980180332847e-09, 2.644330576999187e-09,  -8.986801013193351e-09,
    3.7901404602356164e-08, -1.2424046295570417e-07, 3.7617292810159424e-07, -1.1327198008251626e-06,
    3.29361514435675e-06,   -9.136529630106953e-06,  2.4233987591498262e-05, -6.142361409267038e-05,
    0.00014842110758080817, -0.0003411760229204836,  0.0007445123998749739,  -0.001538874564273584,
    0.0030057624040464932,  -0.005534567846988655,   0.009583962153764291,   -0.015571309244077562,
    0.023686016957350876,   -0.03367135552107505,    0.044674572621282986,   -0.05528003922699226,
    0.06376740371340611,    -0.0684826062058269,     0.06805759990951162,    -0.061124338029666284,
    0.044687709875608835};
template <typename V>
inline constexpr V kI1Far[] = {-3.7856026e-08f, -1.231842e-07f,  -3.5481955e-07f, -1.825007e-06f,
                               -1.5037047e-05f, -2.1923738e-04f, -9.749577e-03f,  3.8939846e-01f};
template <>
inline constexpr double kI1Far<double>[] = {
    7.347992441734663e-11,   1.7502497778701306e-11,  -5.388285995923524e-10,  -1.342266320082222e-10,
    1.8513716745511988e-09,  5.146498826087142e-10,   -4.047785403711858e-09,  -1.4171698018664596e-09,
    6.4870195719816896e-09,  3.406636130196794e-09,   -8.044231276166508e-09,  -7.630751970065577e-09,
    6.040877342160988e-09,   1.4029693589852716e-08,  6.715795128085017e-09,   -8.426622829598154e-09,
    -2.337059627111857e-08,  -4.312935369971356e-08,  -1.0001323461066435e-07, -3.483855609009937e-07,
    -1.8349101134666435e-06, -1.5038547201176271e-05, -0.00021923576383430274, -0.009749577193235728,
    0.38939845902587233};
constexpr double kLgamma[] = {
    4.503581336734181e-09,  -8.609161333756815e-09,  -1.6178990590488004e-08, 3.087095767615671e-08,
    4.716682395405984e-08,  -9.019988132202538e-08,  -3.141361164910239e-08,  5.9288813741426414e-08,
    1.4628906869714245e-07, -2.825520230038544e-07,  3.2083691150200633e-07,  -6.281426470545866e-07,
    1.3732320603648208e-06, -2.696613908505866e-06,  5.251470943195192e-06,   -1.0391134166893372e-05,
    2.067177714464095e-05,  -4.1296315088962895e-05, 8.299871594774562e-05,   -0.00016805225038983159,
    0.00034335904160405614, -0.0007096266689846515,  0.0014887756315956012,   -0.0031879600540747617,
    0.00702944096992667,    -0.016208382218258804,   0.04025612320001958,     -0.11513161737597943,
    0.46580963736232694};

// The same to the precision of float.
constexpr double kLgammaShort[] = {1.5611665200047636e-05, -3.0652821355432877e-05, 1.8510694423677494e-06,
                                   -4.521666721509415e-06, 9.875956914150032e-05,   -0.0001988349148381175,
                                   0.0003365662125116795,  -0.000696362752761683,   0.001490247130937703,
                                   -0.003190832941669968,  0.00702930231608839,     -0.016208111538404693,
                                   0.040256126940427864,   -0.11513162467778085,    0.46580963736232756};

// erf(x) / x by x^2, up to 1; and erfc(x) e^(x^2) (1 + 2x) by (x - 3) / (x + 3), from 1/2 on.
template <typename V>
inline constexpr V kErf[] = {7.875875e-05f,  -8.0168643e-04f, 5.1890872e-03f, -2.6854211e-02f,
                             1.1283594e-01f, -3.7612626e-01f, 1.1283791e+00f};
template <>
inline constexpr double kErf<double>[] = {-4.230945824295338e-12,  8.709045129053106e-11,   -1.216456005728345e-09,
                                          1.4792401209404813e-08,  -1.6364642158167616e-07, 1.6462045441468418e-06,
                                          -1.4925647567519332e-05, 0.00012055332902888736,  -0.000854832702193483,
                                          0.0052239776254232985,   -0.02686617064512984,    0.1128379167095512,
                                          -0.37612638903183754,    1.1283791670955126};
template <typename V>
inline constexpr V kErfcx[] = {3.6265672e-05f,  -6.6783576e-04f, 1.7049559e-03f,  2.5020174e-03f,
                               -2.3683902e-02f, 6.830649e-02f,   -1.1929076e-01f, 1.2964612e-01f,
                               -4.7561083e-02f, -1.3562116e-01f, 1.253008e+00f};
template <>
inline constexpr double kErfcx<double>[] = {
    3.4857627335502858e-09,  -2.364722382728883e-08, 1.8414408874272302e-08, 1.3376612494722382e-07,
    -1.2377771227328327e-07, -6.551721617894753e-07, 3.524226045859983e-07,  3.498025297953852e-06,
    -7.334500043239412e-07,  -2.011099568778652e-05, 4.95124676729196e-06,   0.00012510204965055944,
    -0.00010516036691963738, -0.0007798327144879885, 0.00188869045491503,    0.002529391860413158,
    -0.023770514927307546,   0.06830802734148166,    -0.11927366341492666,   0.12964515870282672,
    -0.0475622943534571,     -0.1356211061245817,    1.2530080582697296};

// erfc(a) for a >= 1/2.
template <typename V>
THALWEG_VECTOR V erfc_far(V a) {
  using P = Plain<V>;
  const V b = select(a > P(30), V(30), a);
  const V square = b * b, lost = fma(b, b, -square);
  const V scaled = split_polynomial(kErfcx<P>, (b - P(3)) / (b + P(3))) / (P(1) + P(2) * b);
  return exp(-square) * (scaled - scaled * lost);
}
template <typename V>
THALWEG_VECTOR V erf_near(V x) {
  return x * split_polynomial(kErf<Plain<V>>, x * x);
}
template <typename V>
THALWEG_VECTOR V erfc(V x) {
  using P = Plain<V>;
  const V a = fabs(x), far = erfc_far(select(a < P(0.5), V(0.5), a));
  const V result = select(a < P(0.5), P(1) - erf_near(x), select(x < P(0), P(2) - far, far));
  return select(x == x, result, x);
}
template <Double V>
THALWEG_VECTOR V erf(V x) {
  const V a = fabs(x), far = 1.0 - erfc_far(select(a < 1.0, V(1), a));
  const V result = select(a < 1.0, erf_near(x), copysign(far, x));
  return select(x == x, result, x);
}

// erfinv(x) / x, from w = -log(1 - x^2), up to 16 for float and 39 for double: a polynomial in w, or in its square root
// further out.
template <typename V>
THALWEG_VECTOR V erfinv_quotient(V w) {
  constexpr V root_five = V(2.23606797749979), middle = (V(4) + root_five) * V(0.5);
  constexpr V per_middle = V(2) / (V(4) - root_five), per_far = V(1) / V(1.125);
  const V near = split_polynomial(kErfinvNear<V>, w * V(0.4) - V(1));
  const V s = std::sqrt(w);
  V beyond = split_polynomial(kErfinvMiddle<V>, (s - middle) * per_middle);
  if constexpr (sizeof(V) == 8) beyond = s > V(4) ? split_polynomial(kErfinvFar, (s - V(5.125)) * per_far) : beyond;
  return w < V(5) ? near : beyond;
}

template <typename V>
THALWEG_VECTOR bool erfinv_holds(V x) {
  return std::fabs(x) < V(1);
}
template <typename V>
THALWEG_VECTOR V erfinv(V x) {
  const V w = -log((V(1) - x) * (V(1) + x));
  return x * erfinv_quotient(w < V(0) ? V(0) : w);
}

template <typename V>
THALWEG_VECTOR bool ndtri_holds(V p) {
  constexpr V smallest = sizeof(V) == 4 ? V(1e-7) : V(1e-16);
  return (p > smallest) & (p < V(1));
}
template <typename V>
THALWEG_VECTOR V ndtri(V p) {
  const V x = fma(V(2), p, V(-1)), w = -log(V(4) * p * (V(1) - p));
  return V(1.4142135623730951) * x * erfinv_quotient(w < V(0) ? V(0) : w);
}

template <typename V>
THALWEG_VECTOR bool bessel_holds(V x) {
  return std::fabs(x) <= std::numeric_limits<V>::max();
}
// exp(-|x|) I0(x), I1(x).
template <typename V>
THALWEG_VECTOR V bessel_i0e(V x) {
  const V a = std::fabs(x), b = a > V(8) ? a : V(8);
  const V near = polynomial(kI0Near<V>, a * V(0.25) - V(1));
  const V far = polynomial(kI0Far<V>, V(16) / b - V(1)) / std::sqrt(b);
  return a > V(8) ? far : near;
}
template <typename V>
THALWEG_VECTOR V bessel_i1e(V x) {
  const V a = std::fabs(x), b = a > V(8) ? a : V(8);
  const V near = a * polynomial(kI1Near<V>, a * V(0.25) - V(1));
  const V far = polynomial(kI1Far<V>, V(16) / b - V(1)) / std::sqrt(b);
  return std::copysign(a > V(8) ? far : near, x);
}

THALWEG_VECTOR bool gamma_holds(double x) { return (x > 1e-290) & (x < 1e290); }

// The asymptotic expansion of the derivative of log gamma from x + 10 on, and the quotients between.
THALWEG_VECTOR double digamma(double x) {
  double sum = 0.0, product = 1.0;  // of 1 / (x + k), as a fraction: sum / product
#pragma GCC unroll 10
  for (int k = 0; k < 10; ++k) {
    const double factor = x + k;
    sum = fma(sum, factor, product);
    product *= factor;
  }
  const bool is_large = x >= 10.0;
  const double y = is_large ? x : x + 10.0, quotient = is_large ? 0.0 : sum / product;
  const double inverse = 1.0 / y, z = inverse * inverse;
  double p = fma(-1.0 / 12, z, 691.0 / 32760);
  p = fma(p, z, -1.0 / 132);
  p = fma(p, z, 1.0 / 240);
  p = fma(p, z, -1.0 / 252);
  p = fma(p, z, 1.0 / 120);
  p = fma(p, z, -1.0 / 12);
  return log(y) - 0.5 * inverse + p * z - quotient;
}

// Stirling's expansion from x + 8 on, and the product between; around its zeros a polynomial.
THALWEG_VECTOR double lgamma(double x) {
  double product = 1.0;
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) product *= x + k;
  const bool is_large = x >= 8.0;
  const double y = is_large ? x : x + 8.0;
  const double inverse = 1.0 / y, z = inverse * inverse;
  double p = fma(-3617.0 / 122400, z, 1.0 / 156);
  p = fma(p, z, -691.0 / 360360);
  p = fma(p, z, 1.0 / 1188);
  p = fma(p, z, -1.0 / 1680);
  p = fma(p, z, 1.0 / 1260);
  p = fma(p, z, -1.0 / 360);
  p = fma(p, z, 1.0 / 12);
  const double stirling = (y - 0.5) * log(y) - y + 0.91893853320467274178 + p * inverse;
  const double wide = stirling - log(is_large ? 1.0 : product);
  const double near = (x - 1.0) * (x - 2.0) * split_polynomial(kLgamma, (x - 1.625) * (1.0 / 0.875));
  return (x > 0.75) & (x < 2.5) ? near : wide;
}

// log(x) within 1e-10, for a normal x > 0: enough for sums that are rounded to float.
THALWEG_VECTOR double short_log(double x) {
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcdu, mantissa = 0x000fffffffffffffu;
  const uint64_t bits = to_bits(x) - root_half, exponent = (bits + (uint64_t{1024} << 52)) >> 52;
  const double e = from_bits(exponent | 0x4330000000000000u) - (4503599627370496.0 + 1024.0);
  const double f = from_bits((bits & mantissa) + root_half) - 1.0;
  const double s = f / (2.0 + f), z = s * s;
  double p = fma(2.0 / 11, z, 2.0 / 9);
  p = fma(p, z, 2.0 / 7);
  p = fma(p, z, 2.0 / 5);
  p = fma(p, z, 2.0 / 3);
  return fma(e, 0.6931471805599453, fma(p, z * s, s + s));
}

// `lgamma` with as many terms as a float needs.
THALWEG_VECTOR double short_lgamma(double x) {
  const double square = fma(x, x, 7.0 * x);  // x (x + 7), of which the products of the other pairs differ by constants
  const double product = (square * (square + 6.0)) * ((square + 10.0) * (square + 12.0));
  const bool is_large = x >= 8.0;
  const double y = is_large ? x : x + 8.0;
  const double inverse = 1.0 / y, z = inverse * inverse;
  double p = fma(1.0 / 1260, z, -1.0 / 360);
  p = fma(p, z, 1.0 / 12);
  const double stirling = fma(y - 0.5, short_log(y), 0.91893853320467274178 - y) + p * inverse;
  const double wide = stirling - short_log(is_large ? 1.0 : product);
  const double near = (x - 1.0) * (x - 2.0) * split_polynomial(kLgammaShort, (x - 1.625) * (1.0 / 0.875));
  return (x > 0.75) & (x < 2.5) ? near : wide;
}

}  // namespace thalweg::vector_math
