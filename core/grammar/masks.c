#include "core/grammar/masks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Each place has WAYS slots that it may take. */
enum { WAYS = 8, BYTES = 32 << 20, FEWEST_SETS = 16, MOST_SETS = 4096 };

struct slot {
    uint64_t owner, used; /* owner 0: free */
    uint32_t place;
    int n_allowed;
    int32_t lowest;
};

struct masks {
    pthread_mutex_t lock;
    size_t words, n_sets;
    struct slot *slot; /* [n_sets * WAYS] */
    uint32_t *bits;    /* [n_sets * WAYS * words] */
    uint64_t owners, now;
};

int masks_open(struct masks **out, size_t words, struct err *e)
{
    struct masks *m = calloc(1, sizeof *m);
    if (!m) return err_memory(e);
    m->words = words;
    m->n_sets = BYTES / WAYS / sizeof *m->bits / (words + 1);
    if (m->n_sets < FEWEST_SETS) m->n_sets = FEWEST_SETS;
    if (m->n_sets > MOST_SETS) m->n_sets = MOST_SETS;
    m->slot = calloc(m->n_sets * WAYS, sizeof *m->slot);
    m->bits = malloc(m->n_sets * WAYS * words * sizeof *m->bits + 1);
    if (!m->slot || !m->bits) {
        free(m->slot);
        free(m->bits);
        free(m);
        return err_memory(e);
    }
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return 0;
}

void masks_close(struct masks *m)
{
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    free(m->slot);
    free(m->bits);
    free(m);
}

uint64_t masks_owner(struct masks *m)
{
    pthread_mutex_lock(&m->lock);
    uint64_t owner = ++m->owners;
    pthread_mutex_unlock(&m->lock);
    return owner;
}

/* The slots of a place. The lock is held. */
static struct slot *set_of(struct masks *m, uint64_t owner, uint32_t place)
{
    uint64_t h = (owner * 0x9e3779b97f4a7c15u) ^ (place * 0xc2b2ae3d27d4eb4fu);
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return m->slot + (h >> 32) % m->n_sets * WAYS;
}

static uint32_t *bits_of(const struct masks *m, const struct slot *s)
{
    return m->bits + (size_t)(s - m->slot) * m->words;
}

int masks_find(struct masks *m, uint64_t owner, uint32_t place, uint32_t *bits, int *n_allowed,
               int32_t *lowest)
{
    int found = 0;
    pthread_mutex_lock(&m->lock);
    struct slot *s = set_of(m, owner, place);
    for (int i = 0; i < WAYS && !found; i++)
        if (s[i].owner == owner && s[i].place == place) {
            memcpy(bits, bits_of(m, &s[i]), m->words * sizeof *bits);
            *n_allowed = s[i].n_allowed;
            *lowest = s[i].lowest;
            s[i].used = ++m->now;
            found = 1;
        }
    pthread_mutex_unlock(&m->lock);
    return found;
}

/* Any processor: no instruction for it is in the x86-64 that all have. */
static int ones(uint32_t x)
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

void masks_count(const uint32_t *bits, size_t words, int *n_allowed, int32_t *lowest)
{
    *n_allowed = 0;
    *lowest = -1;
    for (size_t i = 0; i < words; i++) {
        if (bits[i] && *lowest < 0) *lowest = (int32_t)(32 * i) + __builtin_ctz(bits[i]);
        *n_allowed += ones(bits[i]);
    }
}

void masks_keep(struct masks *m, uint64_t owner, uint32_t place, const uint32_t *bits,
                int *n_allowed, int32_t *lowest)
{
    masks_count(bits, m->words, n_allowed, lowest);
    pthread_mutex_lock(&m->lock);
    struct slot *s = set_of(m, owner, place), *oldest = s;
    for (int i = 1; i < WAYS; i++)
        if (s[i].used < oldest->used) oldest = &s[i];
    *oldest = (struct slot){owner, ++m->now, place, *n_allowed, *lowest};
    memcpy(bits_of(m, oldest), bits, m->words * sizeof *bits);
    pthread_mutex_unlock(&m->lock);
}
