package redisstore

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/rueidis"
)

// markField is the field of the notes that changes whenever they do. It is random:
// a count would begin again after the server forgot it, and could look unchanged.
const markField = "mark"

// Notes reads the notes that all instances with this prefix share, and their mark:
// one HGET while the mark is the known one, else one HGETALL more. It is what
// package control asks for as Shared. The user needs +hget, +hgetall, +hset and
// +hdel on these beside what decisions need.
func (s *Store) Notes(ctx context.Context, known string) (notes map[string]string, mark string, err error) {
	ses, err := s.link.session("notes")
	if err != nil {
		return nil, "", err
	}
	mark, err = s.noteCall(ctx, ses, func(b rueidis.Builder) rueidis.Completed {
		return b.Hget().Key(s.notesKey()).Field(markField).Build()
	}).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, "", s.failed(ctx, ses, "notes", err)
	}
	if mark == known && known != "" {
		return nil, mark, nil
	}
	notes, err = s.noteCall(ctx, ses, func(b rueidis.Builder) rueidis.Completed {
		return b.Hgetall().Key(s.notesKey()).Build()
	}).AsStrMap()
	if err != nil {
		return nil, "", s.failed(ctx, ses, "notes", err)
	}
	if notes == nil {
		notes = map[string]string{}
	}
	mark = notes[markField]
	delete(notes, markField)
	return notes, mark, nil
}

// Note writes some notes and takes others away, for all instances.
func (s *Store) Note(ctx context.Context, write map[string]string, remove []string) error {
	ses, err := s.link.session("note")
	if err != nil {
		return err
	}
	if len(remove) > 0 {
		err := s.noteCall(ctx, ses, func(b rueidis.Builder) rueidis.Completed {
			return b.Hdel().Key(s.notesKey()).Field(remove...).Build()
		}).Error()
		if err != nil {
			return s.failed(ctx, ses, "note", err)
		}
	}
	// The mark comes last: whoever sees the new one sees all that came before.
	err = s.noteCall(ctx, ses, func(b rueidis.Builder) rueidis.Completed {
		fields := b.Hset().Key(s.notesKey()).FieldValue()
		for name, value := range write {
			fields = fields.FieldValue(name, value)
		}
		return fields.FieldValue(markField, rand.Text()).Build()
	}).Error()
	if err != nil {
		return s.failed(ctx, ses, "note", err)
	}
	return nil
}

func (s *Store) noteCall(ctx context.Context, ses *session, build func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	start := time.Now()
	result := ses.client.Do(ctx, build(ses.client.B()))
	if s.observed {
		s.observer.Call("notes", time.Since(start), result.NonRedisError())
	}
	return result
}

func (s *Store) notesKey() string { return s.prefix + "{notes}" }
