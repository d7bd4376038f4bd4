// Special functions of double: gamma, beta and zeta families, and inverses of the error function.
//
// Each takes any double, NaN and infinities included, ends after a bounded number of terms, and returns NaN outside its
// domain. They are accurate to about ten digits; float arguments are computed in double and rounded.
#pragma once

namespace thalweg::special {

double lgamma(double x);   // log |gamma(x)|, without the standard one's global sign
double digamma(double x);  // d log gamma(x) / dx
double erfinv(double x);   // y with erf(y) = x
double ndtri(double p);    // y with normal distribution function(y) = p
// The regularized lower incomplete gamma function P(a, x), and 1 - P(a, x), precise where that is small. Series end
// where a term is below `precision`.
double igamma(double a, double x, double precision);
double igammac(double a, double x, double precision);
double igamma_grad_a(double a, double x);      // dP(a, x) / da
double gamma_sample_grad(double a, double x);  // dx / da along constant P(a, x): how a sample moves with its parameter
double zeta(double x, double q);               // sum of 1 / (q + k)^x over k >= 0
double polygamma(double n, double x);          // the n-th derivative of digamma
double betainc(double a, double b, double x);  // the regularized incomplete beta function
double bessel_i0e(double x);                   // exp(-|x|) I0(x), of the modified Bessel functions
double bessel_i1e(double x);                   // exp(-|x|) I1(x)

}  // namespace thalweg::special
