/* unit_shard.c: parts of a batch: what --shard accepts, launchers' variables, records of a part. */
#include "cli/modes/batch/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t i, n; /* n 0: refused */
    } cases[] = {
        {NULL, 0, 1},
        {"0/1", 0, 1},
        {"0/2", 0, 2},
        {"1/2", 1, 2},
        {"2/2", 0, 0},
        {"1/1", 0, 0},
        {"0/0", 0, 0},
        {"1048575/1048576", 1048575, 1048576},
        {"0/1048577", 0, 0},
        {"-1/2", 0, 0},
        {"0/-2", 0, 0},
        {"/2", 0, 0},
        {"1/", 0, 0},
        {"1", 0, 0},
        {"1/2/3", 0, 0},
        {"a/2", 0, 0},
        {"1/b", 0, 0},
        {"1x/2", 0, 0},
        {"", 0, 0},
        {"00000000000000000000001/2", 1, 2},
        {"000000000000000000000001/2", 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct shard s;
        struct err e;
        int rc = shard_parse(&s, cases[k].text, &e);
        if (rc != (cases[k].n ? 0 : -1)) fail_msg("%s", cases[k].text);
        if (rc) assert_non_null(strstr(e.msg, "must be i/n with i from 0 to n-1"));
        else assert_true(s.i == cases[k].i && s.n == cases[k].n);
    }
}

static void launchers(void **state)
{
    (void)state;
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",     "PMI_SIZE",
        "SLURM_PROCID",         "SLURM_NTASKS",         "SLURM_STEP_ID"};
    struct shard s;
    struct err e;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    assert_int_equal(shard_parse(&s, "auto", &e), -1);
    assert_non_null(strstr(e.msg, "neither srun nor mpirun"));
    setenv("SLURM_PROCID", "3", 1), setenv("SLURM_NTASKS", "5", 1);
    assert_int_equal(shard_parse(&s, "auto", &e), -1); /* a script, and none of its tasks */
    setenv("SLURM_STEP_ID", "0", 1);
    assert_int_equal(shard_parse(&s, "auto", &e), 0);
    assert_true(s.i == 3 && s.n == 5);
    setenv("PMI_RANK", "1", 1);
    assert_int_equal(shard_parse(&s, "auto", &e), 0);
    assert_true(s.i == 3 && s.n == 5); /* a rank without a size is none */
    setenv("PMI_SIZE", "2", 1);        /* within a task of srun */
    assert_int_equal(shard_parse(&s, "auto", &e), 0);
    assert_true(s.i == 1 && s.n == 2);
    setenv("PMI_SIZE", "1", 1);
    assert_int_equal(shard_parse(&s, "auto", &e), -1);
    assert_non_null(strstr(e.msg, "--shard auto"));
}

static void expect_local(uint64_t i, uint64_t n)
{
    struct shard s = shard_local();
    if (s.i != i || s.n != n)
        fail_msg("%d of %d, not %d of %d", (int)s.i, (int)s.n, (int)i, (int)n);
}

static void local_ranks(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_LOCALID",
                                        "SLURM_NODEID",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_TASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    expect_local(0, 1);
    setenv("SLURM_LOCALID", "2", 1); /* inherited: no step */
    expect_local(0, 1);
    setenv("SLURM_STEP_ID", "0", 1);
    expect_local(2, 3);
    static const struct {
        const char *tasks, *node;
        uint64_t n;
    } cases[] = {{"4", "0", 4},          {"4(x3)", "2", 4}, {"1,2(x2),8", "3", 8},
                 {"3(x2),4", "1", 3},    {"3(x2)", "2", 3}, {"2", "0", 3},
                 {"", "0", 3},           {"4(x", "0", 3},   {"4x3", "1", 3},
                 {"9(x1048576)", "5", 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("SLURM_STEP_TASKS_PER_NODE", cases[i].tasks, 1);
        setenv("SLURM_NODEID", cases[i].node, 1);
        expect_local(2, cases[i].n);
    }
    setenv("PMI_RANK", "7", 1); /* srun --mpi=pmi2 */
    expect_local(2, 9);
    setenv("MPI_LOCALRANKID", "1", 1);
    expect_local(1, 2);
    setenv("MPI_LOCALNRANKS", "5", 1);
    expect_local(1, 5);
    setenv("OMPI_COMM_WORLD_RANK", "7", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    expect_local(0, 2);
}

/* Each record is of exactly one part. */
static void records(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 6; n++)
        for (uint64_t all = 0; all <= 20; all++)
            for (uint64_t i = 0; i < n; i++) {
                struct shard s = {i, n};
                uint64_t want = 0;
                for (uint64_t r = 0; r < all; r++) want += r % n == i;
                assert_true(shard_count(&s, all) == want);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(launchers),
                                       cmocka_unit_test(local_ranks), cmocka_unit_test(records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
