/* kv_format.c: the kinds of keys and values as they are stored. */
#include "core/step/kv_format.h"

const struct kv_format kv_formats[KV_TYPES + 1] = {
    [KV_F16] = {"f16", 16, 16, 0, 0, 0},
    [KV_F32] = {"f32", 32, 32, 0, 0, 0},
    [KV_INT8] = {"int8", 8, 8, 1, 1, 0},
    [KV_INT4] = {"int4", 4, 4, 1, 1, 2},
};

static size_t page_bytes(const struct kv_format *f, size_t key_bits, size_t channel_bytes)
{
    size_t bytes = KV_PAGE * (key_bits / 8 + 2 * (size_t)f->n_scales * sizeof(float)) +
                   channel_bytes;
    return f->n_scales ? (bytes + 63) / 64 * 64 : bytes;
}

size_t kv_head_bytes(enum kv_type t, int head_dim)
{
    const struct kv_format *f = &kv_formats[t];
    size_t n = (size_t)kv_padded(t, head_dim);
    return page_bytes(f, n * (size_t)(f->key_bits + f->value_bits),
                      2 * n * (size_t)f->channel_bytes);
}

size_t kv_latent_bytes(enum kv_type t, int head_dim)
{
    const struct kv_format *f = &kv_formats[t];
    size_t n = (size_t)kv_padded(t, head_dim);
    return page_bytes(f, n * (size_t)f->key_bits, n * (size_t)f->channel_bytes);
}

size_t kv_format_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    if (kv_is_latent(kv)) return kv_latent_bytes(t, kv->head_dim);
    return (size_t)kv->n_kv_heads * kv_head_bytes(t, kv->head_dim);
}
