/* element.hip: operations on elements, one thread each: the activations that no linear's launch
 * includes, and additions. */

/* activation(gate) * up, by enum activation of core/step/op.h */
enum { IS_SILU, IS_GELU_TANH, IS_SIGMOID, IS_SWIGLU_CLAMPED, IS_XIELU, IS_RELU2, IS_NONE };

/* e^m - 1 - x of m = min(x, eps), where e^m is `power` */
DEVICE float xielu_curve(float m, float x, float power)
{
    float sum = 1.0f / 40320;
    sum = fma32(sum, m, 1.0f / 5040);
    sum = fma32(sum, m, 1.0f / 720);
    sum = fma32(sum, m, 1.0f / 120);
    sum = fma32(sum, m, 1.0f / 24);
    sum = fma32(sum, m, 1.0f / 6);
    sum = fma32(sum, m, 0.5f);
    return m > -0.5f ? fma32(m * m, sum, m - x) : power - 1 - x;
}

DEVICE float xielu_least(const struct glu_any_args *a, float x) { return x < a->eps ? x : a->eps; }

/* fp32_xielu() of backend-cpu/fp32.h, q of xielu_curve() */
DEVICE float xielu_of(const struct glu_any_args *a, float x, float q)
{
    float linear = a->beta * x;
    return x > 0 ? x * fma32(a->p, x, a->beta) : fma32(a->n_below, q, linear);
}

DEVICE float relu_squared(float x)
{
    float y = x < 0 ? 0 : x;
    return y * y;
}

KERNEL(glu_any, struct glu_any_args)
{
    const struct glu_any_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i >= a->n) return;
    float gate = a->gate[i], up = a->up ? a->up[i] : 1, y;
    if (a->activation == IS_XIELU) {
        float m = xielu_least(a, gate);
        y = xielu_of(a, gate, xielu_curve(m, gate, exp32(m)));
    } else if (a->activation == IS_SIGMOID) {
        y = sigmoid32(gate) * up;
    } else if (a->activation == IS_SWIGLU_CLAMPED) {
        gate = gate > a->limit ? a->limit : gate;
        up = up > a->limit ? a->limit : up < -a->limit ? -a->limit : up;
        y = gate * sigmoid32(a->alpha * gate) * (up + 1);
    } else if (a->activation == IS_RELU2 || a->activation == IS_NONE) {
        y = (a->activation == IS_RELU2 ? relu_squared(gate) : gate) * up;
    } else {
        y = gated(gate, up, a->activation == IS_GELU_TANH);
    }
    a->gate[i] = y;
}

/* (x + delta / (1 + e^-gate)) scale (1 + beta ln(1 + floor((pos + first) / original))). Block (row,
 * elements) */
KERNEL(add_rows, struct add_args)
{
    const struct add_args *a = ARGS;
    int i = block_y() * THREADS + thread(), row = block_x();
    if (i >= a->dim) return;
    u64 offset = (u64)row * (u64)a->dim + (u64)i;
    float v = a->x[offset];
    if (a->delta) {
        float d = a->delta[offset];
        v = a->gate ? fma32(d, sigmoid32(a->gate[row]), v) : v + d;
    }
    v *= a->scale;
    if (a->original) {
        int pos = a->pos[a->row ? a->row[row] : row];
        v *= fma32(a->beta, log32((float)(1 + (pos + a->first) / a->original)), 1);
    }
    a->x[offset] = v;
}
