/* Kernels for the interpreter as a compiler writes them, at -O3 and at -O0 (stack, calls).
 * compiled.c has the answers. */
#define DEVICE static __attribute__((device))
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 1024))) void
#define LDS static __attribute__((shared))
typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((vector_size(4)));
typedef unsigned u32;
typedef unsigned long long u64;

DEVICE int x(void) { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int y(void) { return (int)__builtin_amdgcn_workitem_id_y(); }
DEVICE int z(void) { return (int)__builtin_amdgcn_workitem_id_z(); }
DEVICE int block(void) { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* sums[block] = sum of 256 values: each round adds the value N places further, around the end;
 * every barrier counts */
KERNEL rotate_sum(const float *in, float *sums)
{
    LDS float part[256];
    int t = x();
    part[t] = in[block() * 256 + t];
    barrier();
    for (int n = 1; n < 256; n *= 2) {
        float sum = part[t] + part[(t + n) & 255];
        barrier();
        part[t] = sum;
        barrier();
    }
    if (t == 5) sums[block()] = part[t ^ 64];
}

/* out[i] = q, r, sign tricks: divisions by values that are not constants, 32 and 64 bits */
KERNEL divide(const int *in, int *out)
{
    int i = block() * 64 + x(), a = in[2 * i], b = in[2 * i + 1];
    u64 wide = (u64)(u32)a * 1000003u;
    out[4 * i] = b ? a / b : 0;
    out[4 * i + 1] = b ? a % b : 0;
    out[4 * i + 2] = b ? (int)(wide / (u32)b) : 0;
    out[4 * i + 3] = (int)(((long long)a * b) >> 13);
}

/* fp32 division, square root, conversions */
KERNEL floats(const float *in, float *out)
{
    int i = x();
    float a = in[2 * i], b = in[2 * i + 1];
    out[4 * i] = a / b;
    out[4 * i + 1] = __builtin_sqrtf(b * b);
    out[4 * i + 2] = (float)(int)(a * 100) + (float)(u32)(b * b);
    out[4 * i + 3] = (float)((double)a * (double)b + 1.0 / 3);
}

/* A table on the stack, indexed by data. */
KERNEL stack(const int *in, int *out)
{
    int table[16], t = x();
    for (int k = 0; k < 16; k++) table[k] = in[(t + k) & 63];
    for (int k = 0; k < 16; k++) table[table[k] & 15] += k;
    int sum = 0;
    for (int k = 0; k < 16; k++) sum += table[k] * (k + 1);
    out[t] = sum;
}

/* A block of 8 x 4 x 3: transposes through LDS; bytes and halves too. */
KERNEL transpose(const int *in, int *out)
{
    LDS int tile[96];
    LDS unsigned char bytes[96];
    LDS unsigned short halves[96];
    int i = (z() * 4 + y()) * 8 + x(), j = (x() * 4 + y()) * 3 + z();
    tile[i] = in[i];
    bytes[i] = (unsigned char)in[i];
    halves[i] = (unsigned short)(in[i] >> 8);
    barrier();
    out[i] = tile[j] + bytes[95 - j] + halves[j];
}

/* half2 arithmetic, as the linear kernels do it */
KERNEL halves(const f16x2 *in, f16x2 *out, float *dots)
{
    int i = x();
    f16x2 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    out[2 * i] = a * b + c;
    f16x2 d;
    d[0] = a[1] - c[0], d[1] = b[0] * (f16)2;
    out[2 * i + 1] = d;
    float sum = (float)c[0];
    for (int k = 0; k < 2; k++) sum = __builtin_fmaf((float)a[k], (float)b[k], sum);
    dots[i] = sum;
}

/* atomics: a counter, a float sum by compare and swap, a sum in LDS */
KERNEL count(const float *in, u32 *counter, float *sum, u32 *last)
{
    LDS u32 n;
    int i = block() * 128 + x();
    if (x() == 0) n = 0;
    barrier();
    if (in[i] > 0) __hip_atomic_fetch_add(&n, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (x() == 0) {
        u32 ticket = __hip_atomic_fetch_add(counter, n, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        __hip_atomic_fetch_max(last, ticket, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
    __hip_atomic_fetch_add(sum, in[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
