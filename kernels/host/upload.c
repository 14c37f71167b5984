// Copies of arrays to a GPU through pinned memory. Threads that serve here gather pieces into buffers, two for each,
// and one buffer's bytes are on the link while its thread fills the other. Python starts the threads, and none of what
// they do waits for Python. The driver's functions come as addresses, so that this compiles where there is no CUDA.
//
// A mapping of a file is read from the file: pages that a mapping has been read by are in the process's page tables,
// and the thread that lets go of the mapping would wait for them to be taken out again.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    // H100 beside 16 cores, 2026-11-27, GB/s of the mean of mapped files of 16 MiB by one thread of Python, where the
    // link moves 54: pieces of 1 MiB 12 to 17, of 2 MiB 14 to 19, of 4 MiB 11 to 14
    PIECE = 2 << 20, // bytes of a buffer
    BUFFERS = 2,     // of a thread on one GPU, taken in turn
    AXES = 64,       // of a NumPy array, at most
    PATH = 4096,     // bytes of a file's name, less than which are compared
    NO_TIMING = 2,   // CU_EVENT_DISABLE_TIMING
    NO_MEMORY = 2,   // CUDA_ERROR_OUT_OF_MEMORY
};

// All give CUDA's status, which is 0 where all is well.
struct driver {
    int (*set_context)(void *context);
    int (*new_pinned)(void **at, size_t nbytes);
    int (*new_event)(void **event, unsigned flags);
    int (*wait)(void *event);
    int (*copy)(uint64_t to, const void *from, size_t nbytes, void *stream);
    int (*record)(void *event, void *stream);
};

// A file that an array is a mapping of: its name, that of the mapping among the process's, and where the array begins.
struct mapped {
    const char *path, *mapping;
    int64_t begin;
};

// An array, as rows of bytes that lie side by side: one of them for each place along the axes.
struct job {
    struct job *next;
    const struct driver *driver;
    void *context, *stream;
    uint64_t to;
    const char *from;
    const struct mapped *file; // NULL for other arrays
    int64_t nbytes, row, shape[AXES], strides[AXES];
    int axes;
    int64_t taken, left; // pieces that threads have taken, and that they have not yet sent
    int status;          // the first that is not 0
};

struct buffers {
    struct buffers *next;
    void *context, *pinned[BUFFERS], *sent[BUFFERS]; // an event says that a buffer's last bytes have left it
    int turn;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_more = PTHREAD_COND_INITIALIZER, is_done = PTHREAD_COND_INITIALIZER;
static struct job *first, *last; // of which there are pieces to take
static int64_t under_way;        // jobs that are not done
static pid_t owner;              // the process that has the threads: a child that is forked has none

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#define EACH_ROW(BYTES)                                                                                                \
    case BYTES:                                                                                                        \
        for (int64_t k = 0; k < n; k++)                                                                                \
            memcpy(to + k * BYTES, from + k * step, BYTES);                                                            \
        break;

// Rows of one length, which is mostly that of an element where there are many.
static void copy_rows(char *to, const char *from, int64_t n, int64_t row, int64_t step) {
    switch (row) {
        EACH_ROW(1)
        EACH_ROW(2)
        EACH_ROW(4)
        EACH_ROW(8)
        EACH_ROW(16)
    default:
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k * row, from + k * step, (size_t)row);
    }
}

// The bytes from begin to end of the array in C order.
static void gather(const struct job *job, int64_t begin, int64_t end, char *to) {
    const int inner = job->axes - 1;
    for (int64_t some; begin < end; begin += some, to += some) {
        const int64_t inside = begin % job->row;
        const char *from = job->from + inside;
        int64_t at = begin / job->row;
        const int64_t rows = least(job->shape[inner] - at % job->shape[inner], (end - begin) / job->row);
        for (int axis = inner; axis >= 0; at /= job->shape[axis--])
            from += at % job->shape[axis] * job->strides[axis];
        if (inside || rows == 0) {
            some = least(job->row - inside, end - begin);
            memcpy(to, from, (size_t)some);
        } else {
            some = rows * job->row;
            copy_rows(to, from, rows, job->row, job->strides[inner]);
        }
    }
}

// The file of a mapping, opened; -1 where its name is another file's by now, or where the system does not tell. Both
// are the same where both have one name, unless that is of a file that is gone.
static int open_mapped(const struct mapped *file) {
    static const char gone[] = " (deleted)";
    const size_t ending = sizeof gone - 1;
    char own[PATH], other[PATH], link[64];
    const int found = open(file->path, O_RDONLY | O_CLOEXEC);
    if (found < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", found);
    const ssize_t length = readlink(link, own, PATH);
    if (length > 0 && length < PATH && readlink(file->mapping, other, PATH) == length) {
        const size_t n = (size_t)length;
        if (!memcmp(own, other, n) && (n < ending || memcmp(own + n - ending, gone, ending)))
            return found;
    }
    close(found);
    return -1;
}

// The same bytes as gather gives, of one row, from the file; 0 where it has them no more.
static int read_file(const struct job *job, int64_t begin, int64_t end, char *to) {
    const int file = open_mapped(job->file);
    for (ssize_t some = 1; file >= 0 && begin < end && some > 0; begin += some, to += some)
        some = pread(file, to, (size_t)(end - begin), job->file->begin + begin);
    if (file >= 0)
        close(file);
    return file >= 0 && begin == end;
}

// This thread's buffers on a GPU; NULL where there is no memory for the list.
static struct buffers *buffers_on(void *context, struct buffers **mine) {
    for (struct buffers *each = *mine; each; each = each->next)
        if (each->context == context)
            return each;
    struct buffers *new = calloc(1, sizeof *new);
    if (new) {
        new->context = context, new->next = *mine;
        *mine = new;
    }
    return new;
}

// One piece on its way, through the buffer whose turn it is; the status.
static int send(const struct job *job, int64_t piece, struct buffers **mine) {
    const struct driver *driver = job->driver;
    const int64_t begin = piece * PIECE, end = least(begin + PIECE, job->nbytes);
    struct buffers *on = buffers_on(job->context, mine);
    if (!on)
        return NO_MEMORY;
    const int turn = on->turn;
    int status = driver->set_context(job->context);
    if (!status && !on->pinned[turn])
        status = driver->new_pinned(&on->pinned[turn], PIECE);
    if (!status && !on->sent[turn])
        status = driver->new_event(&on->sent[turn], NO_TIMING);
    if (!status)
        status = driver->wait(on->sent[turn]);
    if (status)
        return status;
    if (!(job->file && job->row == job->nbytes && read_file(job, begin, end, on->pinned[turn])))
        gather(job, begin, end, on->pinned[turn]);
    on->turn = (turn + 1) % BUFFERS;
    status = driver->copy(job->to + (uint64_t)begin, on->pinned[turn], (size_t)(end - begin), job->stream);
    return status ? status : driver->record(on->sent[turn], job->stream);
}

// A thread's whole life: one piece after another. Never returns.
void upload_serve(void) {
    struct buffers *mine = NULL;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first)
            pthread_cond_wait(&is_more, &lock);
        struct job *job = first;
        const int64_t piece = job->taken++;
        if (job->taken * PIECE >= job->nbytes)
            first = job->next;
        if (first)
            pthread_cond_signal(&is_more); // each thread wakes the next one: who begins a job need not wake them all
        int status = job->status; // after an error nothing more is sent
        pthread_mutex_unlock(&lock);
        if (!status)
            status = send(job, piece, &mine);
        pthread_mutex_lock(&lock);
        if (!job->status)
            job->status = status;
        if (--job->left == 0) {
            under_way--;
            pthread_cond_broadcast(&is_done);
        }
    }
}

// Has an array copied, to where it lies in C order, and does not wait; NULL where there is no memory for the job. Array
// and file stay until the job's end.
struct job *upload_begin(const struct driver *driver, void *context, void *stream, uint64_t to, const char *from,
                         int64_t axes, const int64_t *shape, const int64_t *strides, int64_t itemsize,
                         const struct mapped *file) {
    struct job *job = calloc(1, sizeof *job);
    if (!job || axes > AXES) {
        free(job);
        return NULL;
    }
    job->driver = driver, job->context = context, job->stream = stream, job->to = to, job->from = from;
    job->file = file;
    job->nbytes = job->row = itemsize;
    for (int64_t axis = 0; axis < axes; axis++)
        job->nbytes *= shape[axis];
    for (; axes && (shape[axes - 1] == 1 || strides[axes - 1] == job->row); axes--)
        job->row *= shape[axes - 1];
    memcpy(job->shape, shape, (size_t)axes * sizeof *shape);
    memcpy(job->strides, strides, (size_t)axes * sizeof *strides);
    if (axes == 0)
        job->shape[axes++] = 1; // one row
    job->axes = (int)axes;
    job->left = (job->nbytes + PIECE - 1) / PIECE;
    if (!job->left)
        return job;
    pthread_mutex_lock(&lock);
    owner = getpid();
    under_way++;
    if (first)
        last->next = job;
    else
        first = job;
    last = job;
    pthread_cond_signal(&is_more);
    pthread_mutex_unlock(&lock);
    return job;
}

// Waits until a job's pieces are on their way, or one of them has failed; the status. The job is gone.
int upload_end(struct job *job) {
    if (getpid() == owner) {
        pthread_mutex_lock(&lock);
        while (job->left)
            pthread_cond_wait(&is_done, &lock);
        pthread_mutex_unlock(&lock);
    }
    const int status = job->status;
    free(job);
    return status;
}

// Waits until nothing is under way, as at the end of a process, whose memory must not go before.
void upload_settle(void) {
    if (getpid() != owner)
        return;
    pthread_mutex_lock(&lock);
    while (under_way)
        pthread_cond_wait(&is_done, &lock);
    pthread_mutex_unlock(&lock);
}
