import chai, { describe, expect } from 'https://jslib.k6.io/k6chaijs/4.3.4.3/index.js';
export default function () {
  const said = [];
  const say = (what) => said.push(String(what));
  say(describe('numbers and texts', () => {
    expect(4, 'Number of crocs').to.be.above(3);
    expect('abc').to.equal('abc').and.to.have.lengthOf(3);
    expect({ a: 1, b: [2, 3] }).to.deep.equal({ a: 1, b: [2, 3] });
    expect([1, 2, 3]).to.include(2);
    expect({ a: 1 }).to.have.property('a', 1);
    expect('x'.repeat(400)).to.be.a('string');
    expect(null).to.be.null;
    expect(1).to.not.equal(2);
    expect(new Map([[1, 2]])).to.have.key(1);
    expect(() => { throw new TypeError('no'); }).to.throw(TypeError, 'no');
  }));
  say(describe('fails', () => {
    expect(1, 'one').to.equal(2);
    say('not reached');
  }));
  say(describe('throws', () => { throw new RangeError('own'); }));
  say(describe('values', () => {
    chai.config.aggregateChecks = false;
    chai.config.logFailures = true;
    expect(7, 'seven').to.be.within(1, 3);
  }));
  chai.config.logFailures = false;
  say(describe('hidden', () => {
    expect('secret').to.anonymize().and.to.equal('secret');
  }));
  chai.config.aggregateChecks = true;
  say(describe('bodies', () => {
    expect({ json: () => 1 }).to.have.validJsonBody();
    expect({ json: () => { throw new Error('x'); } }, 'answer').to.have.validJsonBody();
  }));
  try { expect([1, { a: 2 }]).to.be.empty; } catch (e) { say(`${e.name}: ${e.message} ${e.showDiff} ${e.operator}`); }
  try { chai.assert.equal(1, 2, 'assert'); } catch (e) { say(`${e.name}: ${e.message} ${JSON.stringify(e.actual)} ${JSON.stringify(e.expected)}`); }
  chai.should();
  (5).should.be.below(6);
  console.log(said.join(' | '));
}
